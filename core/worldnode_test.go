package core_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenure-go/tenure/core"
)

// proc is one process: a State, its clock, and an executor that is late, slow
// and sometimes stopped, as real ones are.
type proc struct {
	w       *world
	s       *core.State
	machine int
	dead    bool
	over    bool // End was carried out by the core

	offset core.Time
	rate   int64 // in millionths of real time

	stopped int64        // until when the process is stopped
	inbox   []core.Event // that arrived meanwhile
	todo    []core.Effect
	pumping bool
	waking  int // generation of the wake-up

	reqs map[core.RequestID]*call
	open []*call // taken by the State and not settled

	// The truth about its lease: when each write was decided, and which the
	// store has applied.
	anchors map[uint64]core.Time
	lastSeq uint64
	applied core.Time // anchor of the newest applied write
	ticks   int       // ticks in a row, since tickAt
	tickAt  core.Time

	did cost // what it asked of the bucket
}

func (p *proc) clock() core.Time {
	t := p.w.t
	return p.offset + core.Time((t+t/1_000_000*p.rate+t%1_000_000*p.rate/1_000_000)/perUnit)
}

// realAt is the first real time at which the clock shows at.
func (p *proc) realAt(at core.Time) int64 {
	t := int64(at-p.offset) * perUnit * 1_000_000 / (1_000_000 + p.rate)
	return max(p.w.t, t) + 2*perUnit
}

func (p *proc) pause(d core.Time) {
	p.w.logf("%s stops for %d", p.s.Node(), d)
	p.stopped = p.w.t + p.w.units(d)
	p.w.in(p.w.units(d), p.resume)
}

// resume takes what came meanwhile, effects and events in an arbitrary mix.
func (p *proc) resume() {
	if p.dead || p.w.t < p.stopped {
		return
	}
	box := p.inbox
	p.inbox = nil
	if p.w.rng.IntN(2) == 0 {
		p.pump()
	}
	for _, ev := range box {
		if p.dead {
			return
		}
		p.step(ev)
	}
	if !p.dead {
		p.step(core.Tick{})
		p.pump()
	}
}

// post gives the process an event.
func (p *proc) post(ev core.Event) {
	switch {
	case p.dead:
	case p.w.t < p.stopped:
		p.inbox = append(p.inbox, ev)
	default:
		p.step(ev)
	}
}

func (p *proc) step(ev core.Event) {
	if p.w.bad != nil {
		return
	}
	now := p.clock()
	p.w.logf("%s(%d) < %T%+v", p.s.Node(), now, ev, ev)
	if a, is := ev.(core.Arrive); is {
		p.reqs[a.ID].arrived = true
		p.open = append(p.open, p.reqs[a.ID])
	}
	effects := p.stepTwice(now, ev)
	p.w.stats.steps++
	for _, e := range effects {
		text := effectText(e)
		p.w.mix(text)
		p.w.logf("%s     > %s", p.s.Node(), text)
		p.decided(now, e)
	}
	p.todo = append(p.todo, effects...)
	if len(effects) > 0 && p.w.chance(p.w.plan.faults/15) { // what was decided is done late
		p.pause(core.Time(p.w.rng.IntN(int(ttl) * 3 / 2)))
	}
	p.check(now, ev)
	if len(p.todo) > 0 && !p.pumping {
		p.schedulePump()
	}
	p.arm()
}

// stepTwice lets a clone, or a state that was saved and restored, decide too, now
// and then, and goes on with it.
func (p *proc) stepTwice(now core.Time, ev core.Event) []core.Effect {
	if p.w.rng.IntN(20) > 0 || p.large() {
		return slices.Clone(p.s.Step(now, ev))
	}
	twin := p.s.Clone()
	if p.w.rng.IntN(4) == 0 {
		twin = restored(p)
	}
	effects := slices.Clone(p.s.Step(now, ev))
	if err := twin.Check(); err != nil {
		p.w.violated("a clone: %v", err)
	}
	same := slices.EqualFunc(effects, twin.Step(now, ev), func(a, b core.Effect) bool { return effectText(a) == effectText(b) })
	if !same || twin.Next() != p.s.Next() {
		p.w.violated("%s and its clone decide differently on %T%+v", p.s.Node(), ev, ev)
	}
	p.s = twin
	return effects
}

// effectText is the same for the same effect; a pointer in it would not be.
func effectText(e core.Effect) string {
	if wr, is := e.(core.WriteOwner); is && wr.Evidence != nil {
		ev := *wr.Evidence
		wr.Evidence = nil
		return fmt.Sprintf("%T%+v because %+v", wr, wr, ev)
	}
	return fmt.Sprintf("%T%+v", e, e)
}

// arm plans the Tick that the State asks for.
func (p *proc) arm() {
	p.waking++
	next := p.s.Next()
	if p.over || next > 1<<60 {
		return
	}
	gen := p.waking
	p.w.in(p.realAt(next)-p.w.t, func() {
		if !p.dead && gen == p.waking && p.w.t >= p.stopped {
			p.step(core.Tick{})
		}
	})
}

// schedulePump carries the next effect out, mostly soon.
func (p *proc) schedulePump() {
	p.pumping = true
	d := int64(p.w.rng.IntN(3) * p.w.rng.IntN(perUnit))
	if p.w.chance(p.w.plan.faults / 4) {
		d = p.w.units(core.Time(p.w.rng.IntN(int(2 * slack))))
	}
	p.w.in(d, func() {
		p.pumping = false
		if !p.dead && p.w.t >= p.stopped {
			p.pump()
		}
	})
}

// pump carries out effects, in order.
func (p *proc) pump() {
	for n := 1 + p.w.rng.IntN(4); n > 0 && len(p.todo) > 0 && p.w.bad == nil; n-- {
		e := p.todo[0]
		p.todo = p.todo[1:]
		e.Do(p)
		if p.dead {
			return
		}
	}
	if len(p.todo) > 0 && !p.pumping {
		p.schedulePump()
	}
}

// decided judges an effect when it is decided.
func (p *proc) decided(now core.Time, e core.Effect) {
	w := p.w
	p.did.count(e)
	if _, is := e.(core.Fail); p.over && !is {
		w.violated("S7: %s decided %T after its end", p.s.Node(), e)
	}
	switch e := e.(type) {
	case core.WriteLease:
		if e.Lease.Seq <= p.lastSeq {
			w.violated("%s reuses seq %d", e.Lease.Node, e.Lease.Seq)
		}
		p.anchors[e.Lease.Seq], p.lastSeq = now, e.Lease.Seq
	case core.WriteOwner:
		if e.Owner.Node != "" && (e.Expect == "") != (e.Owner.Epoch == 1) {
			w.violated("%s claims %s at epoch %d against version %q", p.s.Node(), e.Cell, e.Owner.Epoch, e.Expect)
		}
		if e.Evidence != nil {
			w.stats.takeovers++
			w.judgeTakeover(e)
		}
	case core.Dispatch:
		p.reqs[e.ID].onDispatch(p)
	case core.Answer:
		p.reqs[e.ID].onAnswer(p)
	case core.Fail:
		w.stats.codes[e.Failure.Code]++
		p.reqs[e.ID].onFail(p, e.Failure)
	case core.Abort:
		p.reqs[e.ID].onAbort(p)
	case core.End:
		p.over = true
		p.judgeEnd(e)
	}
}

// judgeTakeover: the verdict must be true at this instant of real time.
func (w *world) judgeTakeover(e core.WriteOwner) {
	v := w.all[e.Evidence.Node]
	if v != nil && e.Evidence.Rule == core.RuleReleased && v.s.Draining() && v.s.Counts().Owned == 0 {
		return // its lease lives on, but it serves nothing any more
	}
	if v != nil && !v.dead && !v.over && v.s.Held() && v.s.Node() == e.Evidence.Node && v.clock() < v.s.AuthorityEnds() {
		w.violated("takeover of %s from %s, which has authority for %d more: %+v", e.Cell, e.Evidence.Node, v.s.AuthorityEnds()-v.clock(), *e.Evidence)
	}
}

// judgeEnd: every request has had its answer by now (L1).
func (p *proc) judgeEnd(e core.End) {
	if e.Reason.Fenced() {
		p.w.stats.fenced++
	}
	p.w.stats.ends++
	for _, c := range p.open {
		if !c.settled() && !c.gone {
			p.w.violated("L1: %s ended without an answer to %+v", p.s.Node(), *c)
		}
	}
}

// leaseApplied: the store has taken a lease write of this process.
func (p *proc) leaseApplied(l core.Lease) {
	if at := p.anchors[l.Seq]; !l.Released {
		p.applied = max(p.applied, at)
	}
}

// large: what takes time proportional to the state is left out.
func (p *proc) large() bool {
	c := p.s.Counts()
	return c.Owned+c.Requests > 500
}

// check looks at the State after each step.
func (p *proc) check(now core.Time, ev core.Event) {
	w := p.w
	if !p.large() {
		if err := p.s.Check(); err != nil {
			w.violated("%s: %v", p.s.Node(), err)
		}
	}
	if p.over {
		return
	}
	if p.s.Held() && p.s.AuthorityEnds() > p.applied+ttl-slack {
		w.violated("S5: %s has authority until %d, its newest applied lease write was decided at %d", p.s.Node(), p.s.AuthorityEnds(), p.applied)
	}
	if next := p.s.Next(); next <= now {
		w.violated("%s asks for a Tick at %d, and it is %d", p.s.Node(), next, now)
	}
	p.checkTicks(now, ev)
	p.open = slices.DeleteFunc(p.open, func(c *call) bool { return c.settled() || c.gone })
	for _, c := range p.open {
		if now > c.deadline {
			w.violated("L1: at %d %s has not answered %+v", now, p.s.Node(), *c)
		}
	}
}

// checkTicks: a node that has nothing to do is left alone.
func (p *proc) checkTicks(now core.Time, ev core.Event) {
	if _, is := ev.(core.Tick); !is || now-p.tickAt > ttl {
		p.ticks, p.tickAt = 0, now
		return
	}
	if p.ticks++; p.ticks > 150+10*len(p.open) {
		p.w.violated("%s was ticked %d times within a TTL", p.s.Node(), p.ticks)
	}
}

// mayBegin is S3: judged in real time, at the instant of the act.
func (p *proc) mayBegin(cell core.CellName, epoch core.Epoch, what string) {
	w := p.w
	if epoch < w.begun[cell] {
		w.violated("S3: %s begins %s of %s at epoch %d, after one at %d", p.s.Node(), what, cell, epoch, w.begun[cell])
	}
	w.begun[cell] = max(w.begun[cell], epoch)
	for _, q := range w.procs {
		v, _ := q.s.Cell(cell)
		if q != p && !q.over && v.Phase == "owned" && q.s.Held() && q.clock() < q.s.AuthorityEnds() {
			w.violated("S3: %s begins %s of %s at %d, and %s may at %d", p.s.Node(), what, cell, epoch, q.s.Node(), v.Epoch)
		}
	}
}

func (p *proc) Mint(e core.Mint) {
	p.w.ids++
	id := core.NodeID(fmt.Sprintf("n%d", p.w.ids))
	p.w.all[id] = p
	p.applied = 0
	c := core.Contact{Addr: "addr-" + string(id), Key: "key", Protocol: 1}
	if p.w.chance(10) {
		c.Protocol = 2
	}
	p.w.in(p.w.delay(), func() { p.post(core.Minted{Op: e.Op, Node: id, Generation: "gen-" + string(id), Contact: c}) })
}

// hook is what the application does when it is told something.
func (p *proc) hook(done func(ok bool)) {
	switch {
	case p.w.chance(p.w.plan.faults / 4): // hangs
	case p.w.chance(p.w.plan.faults / 2):
		p.w.in(p.w.delay(), func() { done(false) })
	default:
		p.w.in(p.w.delay(), func() { done(true) })
	}
}

func (p *proc) Activate(e core.Activate) {
	p.hook(func(ok bool) { p.post(core.Activated{Op: e.Op, Cell: e.Cell, OK: ok, Detail: "no"}) })
}

func (p *proc) Deactivate(e core.Deactivate) {
	p.hook(func(bool) { p.post(core.Deactivated{Op: e.Op, Cell: e.Cell}) })
}

func (p *proc) Probe(e core.Probe) {
	w := p.w
	w.in(w.delay(), func() {
		q := w.all[e.Node]
		up := q != nil && !q.dead && !q.over && q.s.Node() == e.Node && w.reaches(p.machine, q.machine)
		switch {
		case !up && w.rng.IntN(2) == 0, up && w.t < q.stopped: // no answer
		default:
			w.in(w.delay(), func() { p.post(core.Probed{Op: e.Op, Node: e.Node, OK: up}) })
		}
	})
}

// End ends the process.
func (p *proc) End(core.End) { p.w.end(p) }

func (p *proc) calls() []*call {
	cs := make([]*call, 0, len(p.reqs))
	for _, id := range slices.Sorted(maps.Keys(p.reqs)) {
		cs = append(cs, p.reqs[id])
	}
	return cs
}
