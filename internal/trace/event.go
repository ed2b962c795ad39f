package trace

import "github.com/tenure-go/tenure/core"

// The words for what is a number in the core.
var (
	writeOutcomes   = words(core.Contended)
	readOutcomes    = words(core.BadRecord)
	forwardFailures = words(core.PeerRefused)
)

// words are the core's own for each constant up to the last.
func words[T interface {
	~uint8
	String() string
}](last T) (all []string) {
	for v := T(0); v <= last; v++ {
		all = append(all, v.String())
	}
	return all
}

// writeEvent writes the kind of an event and its fields. A test sees to it that it
// knows every kind.
func (c *codec) writeEvent(ev core.Event) {
	switch e := ev.(type) {
	case core.Arrive:
		c.kind("arrive")
		c.arrive(&e)
	case core.Ready:
		c.kind("ready")
		c.ready(&e)
	case core.Done:
		c.kind("done")
		c.done(&e)
	case core.Tick:
		c.kind("tick")
	case core.Late:
		c.kind("late")
		c.late(&e)
	case core.Gone:
		c.kind("gone")
		c.gone(&e)
	case core.ForwardFailed:
		c.kind("forward-failed")
		c.forwardFailed(&e)
	case core.LeaseWritten:
		c.kind("lease-written")
		c.leaseWritten(&e)
	case core.LeaseRead:
		c.kind("lease-read")
		c.leaseRead(&e)
	case core.LeasesListed:
		c.kind("leases-listed")
		c.leasesListed(&e)
	case core.OwnerRead:
		c.kind("owner-read")
		c.ownerRead(&e)
	case core.OwnerWritten:
		c.kind("owner-written")
		c.ownerWritten(&e)
	case core.Activated:
		c.kind("activated")
		c.activated(&e)
	case core.Deactivated:
		c.kind("deactivated")
		c.deactivated(&e)
	case core.Probed:
		c.kind("probed")
		c.probed(&e)
	case core.Evict:
		c.kind("evict")
		c.evict(&e)
	case core.Start:
		c.kind("start")
	case core.Minted:
		c.kind("minted")
		c.minted(&e)
	case core.Drain:
		c.kind("drain")
	default:
		c.kind("unknown")
	}
}

func (c *codec) kind(name string) { c.writeText("on", name) }

// events reads the fields of an event of each kind.
var events = map[string]func(*codec) core.Event{
	"arrive":         event((*codec).arrive),
	"ready":          event((*codec).ready),
	"done":           event((*codec).done),
	"tick":           event(nothing[core.Tick]),
	"late":           event((*codec).late),
	"gone":           event((*codec).gone),
	"forward-failed": event((*codec).forwardFailed),
	"lease-written":  event((*codec).leaseWritten),
	"lease-read":     event((*codec).leaseRead),
	"leases-listed":  event((*codec).leasesListed),
	"owner-read":     event((*codec).ownerRead),
	"owner-written":  event((*codec).ownerWritten),
	"activated":      event((*codec).activated),
	"deactivated":    event((*codec).deactivated),
	"probed":         event((*codec).probed),
	"evict":          event((*codec).evict),
	"start":          event(nothing[core.Start]),
	"minted":         event((*codec).minted),
	"drain":          event(nothing[core.Drain]),
}

func event[E core.Event](fields func(*codec, *E)) func(*codec) core.Event {
	return func(c *codec) core.Event {
		var e E
		fields(c, &e)
		return e
	}
}

func nothing[E any](*codec, *E) {}

func (c *codec) readEvent() core.Event {
	kind := c.readText("on")
	read := events[kind]
	if read == nil {
		c.fail("an event of the kind %q is not known to this version", kind)
		return nil
	}
	return read(c)
}

func (c *codec) arrive(e *core.Arrive) {
	num(c, "id", &e.ID)
	str(c, "cell", &e.Cell)
	num(c, "deadline", &e.Deadline)
	c.flag("forwarded", &e.Forwarded)
	c.flag("own", &e.Own)
	c.flag("try", &e.Try)
}

func (c *codec) ready(e *core.Ready) { num(c, "id", &e.ID) }
func (c *codec) done(e *core.Done)   { num(c, "id", &e.ID) }
func (c *codec) late(e *core.Late)   { num(c, "id", &e.ID) }
func (c *codec) gone(e *core.Gone)   { num(c, "id", &e.ID) }

func (c *codec) forwardFailed(e *core.ForwardFailed) {
	num(c, "id", &e.ID)
	word(c, "how", &e.How, forwardFailures)
	c.Group("refusal", func() { c.failure(&e.Refusal) })
}

func (c *codec) leaseWritten(e *core.LeaseWritten) {
	num(c, "op", &e.Op)
	word(c, "outcome", &e.Outcome, writeOutcomes)
	str(c, "version", &e.Version)
	c.stamps(&e.Stamps)
}

func (c *codec) leaseRead(e *core.LeaseRead) {
	num(c, "op", &e.Op)
	str(c, "node", &e.Node)
	word(c, "outcome", &e.Outcome, readOutcomes)
	c.Group("lease", func() { c.lease(&e.Lease) })
	str(c, "version", &e.Version)
	c.stamps(&e.Stamps)
}

func (c *codec) leasesListed(e *core.LeasesListed) {
	num(c, "op", &e.Op)
	strs(c, "nodes", &e.Nodes)
}

func (c *codec) ownerRead(e *core.OwnerRead) {
	num(c, "op", &e.Op)
	str(c, "cell", &e.Cell)
	word(c, "outcome", &e.Outcome, readOutcomes)
	str(c, "owner", &e.Owner.Node)
	num(c, "epoch", &e.Owner.Epoch)
	str(c, "version", &e.Version)
}

func (c *codec) ownerWritten(e *core.OwnerWritten) {
	num(c, "op", &e.Op)
	str(c, "cell", &e.Cell)
	word(c, "outcome", &e.Outcome, writeOutcomes)
	str(c, "version", &e.Version)
}

func (c *codec) activated(e *core.Activated) {
	num(c, "op", &e.Op)
	str(c, "cell", &e.Cell)
	c.flag("ok", &e.OK)
	str(c, "detail", &e.Detail)
}

func (c *codec) deactivated(e *core.Deactivated) {
	num(c, "op", &e.Op)
	str(c, "cell", &e.Cell)
}

func (c *codec) probed(e *core.Probed) {
	num(c, "op", &e.Op)
	str(c, "node", &e.Node)
	c.flag("ok", &e.OK)
}

func (c *codec) evict(e *core.Evict) { str(c, "cell", &e.Cell) }

func (c *codec) minted(e *core.Minted) {
	num(c, "op", &e.Op)
	str(c, "node", &e.Node)
	str(c, "generation", &e.Generation)
	c.Group("contact", func() { c.contact(&e.Contact) })
}

func (c *codec) stamps(s *core.Stamps) {
	num(c, "date", &s.Date)
	c.flag("has_date", &s.HasDate)
	num(c, "modified", &s.Modified)
	c.flag("has_modified", &s.HasModified)
}

func (c *codec) lease(l *core.Lease) {
	str(c, "node", &l.Node)
	str(c, "generation", &l.Generation)
	num(c, "seq", &l.Seq)
	num(c, "ttl", &l.TTL)
	c.flag("released", &l.Released)
	c.contact(&l.Contact)
}

func (c *codec) contact(k *core.Contact) {
	str(c, "addr", &k.Addr)
	str(c, "key", &k.Key)
	num(c, "protocol", &k.Protocol)
}

func (c *codec) failure(f *core.Failure) {
	str(c, "code", &f.Code)
	c.flag("ran", &f.Ran)
	num(c, "retry_after", &f.RetryAfter)
	str(c, "detail", &f.Detail)
	str(c, "node", &f.Node)
	num(c, "epoch", &f.Epoch)
}
