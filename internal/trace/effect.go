package trace

import "github.com/tenure-go/tenure/core"

// effects writes effects, each an object in the list "do".
type effects struct{ *codec }

func (c *codec) writeEffects(all []core.Effect) {
	if len(all) == 0 {
		return
	}
	c.out = append(c.key("do"), '[')
	for i, e := range all {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.writeEffect(e)
	}
	c.out = append(c.out, ']')
}

func (c *codec) writeEffect(e core.Effect) {
	c.out = append(c.out, '{')
	e.Do(effects{c})
	c.out = append(c.out, '}')
}

func (x effects) kind(name string) { x.writeText("do", name) }

func (x effects) Mint(e core.Mint)             { x.kind("mint"); x.mint(&e) }
func (x effects) WriteLease(e core.WriteLease) { x.kind("write-lease"); x.writeLease(&e) }
func (x effects) ReadLease(e core.ReadLease)   { x.kind("read-lease"); x.readLease(&e) }
func (x effects) ListLeases(e core.ListLeases) { x.kind("list-leases"); x.listLeases(&e) }
func (x effects) ReadOwner(e core.ReadOwner)   { x.kind("read-owner"); x.readOwner(&e) }
func (x effects) WriteOwner(e core.WriteOwner) { x.kind("write-owner"); x.writeOwner(&e) }
func (x effects) Activate(e core.Activate)     { x.kind("activate"); x.activate(&e) }
func (x effects) Deactivate(e core.Deactivate) { x.kind("deactivate"); x.deactivate(&e) }
func (x effects) Probe(e core.Probe)           { x.kind("probe"); x.probe(&e) }
func (x effects) Dispatch(e core.Dispatch)     { x.kind("dispatch"); x.dispatch(&e) }
func (x effects) Forward(e core.Forward)       { x.kind("forward"); x.forward(&e) }
func (x effects) Answer(e core.Answer)         { x.kind("answer"); x.answer(&e) }
func (x effects) Fail(e core.Fail)             { x.kind("fail"); x.failRequest(&e) }
func (x effects) Abort(e core.Abort)           { x.kind("abort"); x.abort(&e) }
func (x effects) End(e core.End)               { x.kind("end"); x.end(&e) }

// effectKinds reads the fields of an effect of each kind.
var effectKinds = map[string]func(*codec) core.Effect{
	"mint":        effect((*codec).mint),
	"write-lease": effect((*codec).writeLease),
	"read-lease":  effect((*codec).readLease),
	"list-leases": effect((*codec).listLeases),
	"read-owner":  effect((*codec).readOwner),
	"write-owner": effect((*codec).writeOwner),
	"activate":    effect((*codec).activate),
	"deactivate":  effect((*codec).deactivate),
	"probe":       effect((*codec).probe),
	"dispatch":    effect((*codec).dispatch),
	"forward":     effect((*codec).forward),
	"answer":      effect((*codec).answer),
	"fail":        effect((*codec).failRequest),
	"abort":       effect((*codec).abort),
	"end":         effect((*codec).end),
}

func effect[E core.Effect](fields func(*codec, *E)) func(*codec) core.Effect {
	return func(c *codec) core.Effect {
		var e E
		fields(c, &e)
		return e
	}
}

func (c *codec) readEffects() []core.Effect {
	var all []core.Effect
	c.List("do", 0, func(int) {
		kind := c.readText("do")
		read := effectKinds[kind]
		if read == nil {
			c.fail("an effect of the kind %q is not known to this version", kind)
			return
		}
		all = append(all, read(c))
	})
	return all
}

func (c *codec) mint(e *core.Mint) { num(c, "op", &e.Op) }

func (c *codec) writeLease(e *core.WriteLease) {
	num(c, "op", &e.Op)
	c.Group("lease", func() { c.lease(&e.Lease) })
	str(c, "expect", &e.Expect)
	c.flag("fresh", &e.Fresh)
	num(c, "not_after", &e.NotAfter)
	num(c, "deadline", &e.Deadline)
}

func (c *codec) readLease(e *core.ReadLease) {
	num(c, "op", &e.Op)
	str(c, "node", &e.Node)
	c.flag("own", &e.Own)
	c.flag("fresh", &e.Fresh)
	num(c, "deadline", &e.Deadline)
}

func (c *codec) listLeases(e *core.ListLeases) {
	num(c, "op", &e.Op)
	num(c, "deadline", &e.Deadline)
}

func (c *codec) readOwner(e *core.ReadOwner) {
	num(c, "op", &e.Op)
	str(c, "cell", &e.Cell)
	num(c, "deadline", &e.Deadline)
}

func (c *codec) writeOwner(e *core.WriteOwner) {
	num(c, "op", &e.Op)
	str(c, "cell", &e.Cell)
	str(c, "owner", &e.Owner.Node)
	num(c, "epoch", &e.Owner.Epoch)
	str(c, "expect", &e.Expect)
	num(c, "not_after", &e.NotAfter)
	num(c, "deadline", &e.Deadline)
	if c.reading && c.in["evidence"] != nil {
		e.Evidence = new(core.Evidence)
	}
	if e.Evidence != nil {
		c.Group("evidence", func() { c.evidence(e.Evidence) })
	}
}

func (c *codec) evidence(ev *core.Evidence) {
	str(c, "node", &ev.Node)
	str(c, "rule", &ev.Rule)
	str(c, "version", &ev.Version)
	c.stamps(&ev.Stamps)
	num(c, "took", &ev.Took)
	num(c, "watched", &ev.Watched)
}

func (c *codec) activate(e *core.Activate) {
	num(c, "op", &e.Op)
	str(c, "cell", &e.Cell)
	num(c, "epoch", &e.Epoch)
	str(c, "prior", &e.Prior)
	c.flag("takeover", &e.Takeover)
	num(c, "deadline", &e.Deadline)
}

func (c *codec) deactivate(e *core.Deactivate) {
	num(c, "op", &e.Op)
	str(c, "cell", &e.Cell)
	num(c, "epoch", &e.Epoch)
	str(c, "reason", &e.Reason)
	num(c, "deadline", &e.Deadline)
}

func (c *codec) probe(e *core.Probe) {
	num(c, "op", &e.Op)
	str(c, "node", &e.Node)
	c.Group("contact", func() { c.contact(&e.Contact) })
	num(c, "deadline", &e.Deadline)
}

func (c *codec) dispatch(e *core.Dispatch) {
	num(c, "id", &e.ID)
	str(c, "cell", &e.Cell)
	num(c, "epoch", &e.Epoch)
	num(c, "not_after", &e.NotAfter)
}

func (c *codec) forward(e *core.Forward) {
	num(c, "id", &e.ID)
	str(c, "cell", &e.Cell)
	str(c, "node", &e.Node)
	c.Group("contact", func() { c.contact(&e.Contact) })
}

func (c *codec) answer(e *core.Answer) {
	num(c, "id", &e.ID)
	num(c, "not_after", &e.NotAfter)
}

func (c *codec) failRequest(e *core.Fail) {
	num(c, "id", &e.ID)
	c.Group("failure", func() { c.failure(&e.Failure) })
}

func (c *codec) abort(e *core.Abort) {
	num(c, "id", &e.ID)
	str(c, "reason", &e.Reason)
}

func (c *codec) end(e *core.End) { str(c, "reason", &e.Reason) }
