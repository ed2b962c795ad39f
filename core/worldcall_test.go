package core_test

import (
	"github.com/tenure-go/tenure/core"
)

// call is one request at one process, as its executor knows it. A forwarded
// request is a call at each of the two.
type call struct {
	id       core.RequestID
	cell     core.CellName
	deadline core.Time
	own, try bool
	arrived  bool // the State has taken it
	at       core.Time

	// What the State decided.
	dispatched, answered, failed, aborted bool
	why                                   core.Failure
	late                                  bool // an Answer or Dispatch came too late

	// What was done.
	epoch   core.Epoch
	running bool // the application works on it here
	begun   bool // its answer was let out
	gone    bool // its caller went away
	done    bool

	origin   *proc // the process that forwarded it here
	originID core.RequestID
	down     *proc // the process to which it was forwarded
	downID   core.RequestID
}

// settled: its caller knows.
func (c *call) settled() bool { return c.answered || c.failed || c.own && c.dispatched }

func (c *call) onDispatch(p *proc) {
	if c.failed || c.answered || c.aborted || c.dispatched && !c.late {
		p.w.violated("L1: %s dispatches %+v", p.s.Node(), *c)
	}
	c.dispatched, c.late = true, false
	p.w.stats.dispatched++
}

func (c *call) onAnswer(p *proc) {
	if c.failed || c.aborted || c.answered && !c.late {
		p.w.violated("L1: %s answers %+v", p.s.Node(), *c)
	}
	c.answered, c.late = true, false
}

func (c *call) onFail(p *proc, f core.Failure) {
	if c.failed || c.answered || c.aborted {
		p.w.violated("L1: %s fails %+v", p.s.Node(), *c)
	}
	c.failed, c.why = true, f
	p.w.stats.failed++
}

func (c *call) onAbort(p *proc) {
	if c.failed || c.aborted || !c.answered && !(c.own && c.dispatched) {
		p.w.violated("L1: %s aborts %+v", p.s.Node(), *c)
	}
	c.aborted = true
}

// request is a client's.
func (p *proc) request(cell core.CellName, patience core.Time, own, try bool) *call {
	p.w.reqID++
	c := &call{id: p.w.reqID, cell: cell, own: own, try: own && try, at: p.clock(), deadline: p.clock() + patience}
	p.reqs[c.id] = c
	p.post(core.Arrive{ID: c.id, Cell: cell, Deadline: c.deadline, Own: own, Try: c.try})
	if p.w.chance(60) {
		p.w.in(p.w.delay(), func() { p.goAway(c) })
	}
	return c
}

// goAway: the caller hangs up.
func (p *proc) goAway(c *call) {
	if c.gone || c.done || p.dead {
		return
	}
	c.gone = true
	p.cancelDown(c)
	if c.dispatched || c.down != nil {
		p.finish(c)
	} else {
		p.post(core.Gone{ID: c.id})
	}
}

// finish says Done, once, a little later.
func (p *proc) finish(c *call) {
	if c.done {
		return
	}
	c.done = true
	p.w.in(p.w.delay(), func() {
		c.running = false
		p.cancelDown(c)
		p.post(core.Done{ID: c.id})
	})
}

// cancelDown ends the forwarded half of a call.
func (p *proc) cancelDown(c *call) {
	if q := c.down; q != nil {
		c.down = nil
		if d := q.reqs[c.downID]; d != nil {
			d.origin = nil
			q.w.in(q.w.delay(), func() { q.goAway(d) })
		}
	}
}

func (p *proc) Dispatch(e core.Dispatch) {
	c := p.reqs[e.ID]
	switch {
	case c.gone || c.done || c.failed || c.aborted:
		p.finish(c)
		return
	case p.clock() > e.NotAfter:
		p.w.stats.lates++
		c.late = true
		p.post(core.Late{ID: e.ID})
		return
	}
	p.mayBegin(e.Cell, e.Epoch, "a dispatch")
	c.epoch, c.running = e.Epoch, true
	if c.own {
		p.w.in(p.w.units(core.Time(p.w.rng.IntN(int(ttl)))), func() { p.finish(c) })
		return
	}
	work := p.w.delay()
	if p.w.chance(p.w.plan.faults / 3) {
		work = p.w.units(ttl)
	}
	p.w.in(work, func() {
		if c.running && !c.gone && !c.done {
			p.post(core.Ready{ID: c.id})
		}
	})
}

func (p *proc) Answer(e core.Answer) {
	c := p.reqs[e.ID]
	switch {
	case c.gone || c.done || c.aborted:
		p.finish(c)
		return
	case p.clock() > e.NotAfter:
		p.w.stats.lates++
		c.late = true
		p.post(core.Late{ID: e.ID})
		return
	}
	if c.running {
		p.mayBegin(c.cell, c.epoch, "an answer")
	}
	c.begun = true
	p.w.stats.answered++
	if q := c.origin; q != nil {
		p.w.in(p.w.delay(), func() {
			if o := q.reqs[c.originID]; o != nil && o.down == p && o.downID == c.id && !o.gone && !o.done {
				q.post(core.Ready{ID: o.id})
			}
		})
	}
	p.finish(c)
}

func (p *proc) Fail(e core.Fail) {
	c := p.reqs[e.ID]
	p.cancelDown(c)
	if c.dispatched {
		p.finish(c)
	}
	how := core.PeerRefused
	switch {
	case e.Failure.Code == core.CodeNotMine:
		how = core.NotMine
	case e.Failure.Ran:
		how = core.ForwardBroken
	}
	p.tellOrigin(c, how, e.Failure)
}

// tellOrigin ends the forward that brought a call here.
func (p *proc) tellOrigin(c *call, how core.ForwardFailure, f core.Failure) {
	q := c.origin
	if q == nil {
		return
	}
	c.origin = nil
	p.w.in(p.w.delay(), func() {
		o := q.reqs[c.originID]
		if o == nil || o.down != p || o.downID != c.id {
			return
		}
		o.down = nil
		if o.answered {
			q.finish(o)
		} else if !o.gone && !o.done {
			q.post(core.ForwardFailed{ID: o.id, How: how, Refusal: f})
		}
	})
}

func (p *proc) Abort(e core.Abort) {
	c := p.reqs[e.ID]
	p.cancelDown(c)
	p.tellOrigin(c, core.ForwardBroken, core.Failure{Ran: true})
	p.finish(c)
}

func (p *proc) Forward(e core.Forward) {
	w, c := p.w, p.reqs[e.ID]
	if c.gone || c.failed || c.done {
		p.finish(c)
		return
	}
	q := w.all[e.Node]
	fails := func(after int64, how core.ForwardFailure) {
		w.in(after, func() {
			if !c.gone && !c.failed && !c.done {
				p.post(core.ForwardFailed{ID: c.id, How: how})
			}
		})
	}
	switch {
	case q == nil || q.dead || q.over || q.s.Node() != e.Node:
		fails(w.delay(), core.NotConnected)
	case !w.reaches(p.machine, q.machine):
		fails(w.units(w.plan.cfg.DialDeadline), core.NotConnected)
	case w.chance(w.plan.faults / 4):
		fails(w.delay(), core.ForwardBroken)
	default:
		w.reqID++
		d := &call{id: w.reqID, cell: c.cell, origin: p, originID: c.id}
		c.down, c.downID = q, d.id
		w.in(w.delay(), func() {
			if q.dead || q.over {
				c.down = nil
				fails(w.delay(), core.NotConnected)
				return
			}
			d.deadline = q.clock() + max(1, c.deadline-p.clock())
			q.reqs[d.id] = d
			q.post(core.Arrive{ID: d.id, Cell: d.cell, Deadline: d.deadline, Forwarded: true})
			if c.gone || c.done {
				q.goAway(d)
			}
		})
	}
}
