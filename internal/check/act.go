package check

import (
	"slices"

	"github.com/tenure-go/tenure/core"
)

// boot starts a process on a machine where none runs.
func (w *world) boot(i int) {
	m := &w.machines[i]
	s, err := core.New(w.cfg.settings())
	if err != nil {
		panic(err) // the settings are this package's own
	}
	*m = machine{state: s, life: m.life, clock: m.clock}
	w.step(i, core.Start{}, false)
}

// step gives a process an event, and carries out what it decides, unless it is
// stopped just then.
func (w *world) step(i int, ev core.Event, stop bool) {
	m := &w.machines[i]
	m.state = m.state.Clone()
	w.decide(i, ev)
	if stop {
		w.tell("    and stops before it does any of that")
		m.frozen = true
		return
	}
	w.act(i)
}

// decide is one Step.
func (w *world) decide(i int, ev core.Event) {
	m := &w.machines[i]
	held, end := m.state.Held(), m.state.AuthorityEnds()
	m.form = nil
	effects := m.state.Step(m.clock, ev)
	w.tellStep(i, ev, effects)
	m.todo = slices.Concat(m.todo, effects)
	for _, e := range effects {
		w.judgeDecision(i, e)
	}
	w.judgeState(i, held && m.clock >= end)
}

// act carries out what was decided, and gives the process what comes of it at once.
func (w *world) act(i int) {
	a := actor{w: w, i: i}
	for w.bad == "" {
		m := &w.machines[i]
		if len(m.todo) > 0 {
			e := m.todo[0]
			m.todo = m.todo[1:]
			e.Do(&a)
			continue
		}
		m.todo = nil
		if m.state == nil || len(a.events) == 0 {
			return
		}
		ev := a.events[0]
		a.events = a.events[1:]
		w.decide(i, ev)
	}
}

// actor carries out effects of one process.
type actor struct {
	w      *world
	i      int
	events []core.Event // that follow at once
}

func (a *actor) m() *machine { return &a.w.machines[a.i] }

func (a *actor) send(e core.Effect) {
	a.w.flight = append(a.w.flight, op{machine: a.i, node: a.m().id, effect: e})
}

func (a *actor) Mint(e core.Mint) {
	m := a.m()
	a.w.leave(m.id)
	m.life++
	m.id = nodeID(a.i, m.life)
	m.end, m.anchors = 0, nil
	a.events = append(a.events, core.Minted{Op: e.Op, Node: m.id, Generation: string(m.id), Contact: core.Contact{Addr: string(m.id), Protocol: 1}})
}

// A write is not sent after its authority, or its time, has ended.
func (a *actor) WriteLease(e core.WriteLease) {
	if a.m().clock >= e.Deadline || e.NotAfter != 0 && a.m().clock >= e.NotAfter {
		a.events = append(a.events, core.LeaseWritten{Op: e.Op, Outcome: core.NotApplied})
		return
	}
	a.send(e)
}

func (a *actor) WriteOwner(e core.WriteOwner) {
	if a.m().clock >= min(e.Deadline, e.NotAfter) {
		a.events = append(a.events, core.OwnerWritten{Op: e.Op, Cell: e.Cell, Outcome: core.NotApplied})
		return
	}
	a.send(e)
}

func (a *actor) ReadLease(e core.ReadLease)   { a.send(e) }
func (a *actor) ListLeases(e core.ListLeases) { a.send(e) }
func (a *actor) ReadOwner(e core.ReadOwner)   { a.send(e) }
func (a *actor) Probe(e core.Probe)           { a.send(e) }
func (a *actor) Forward(e core.Forward)       { a.send(e) }

func (a *actor) Activate(e core.Activate) {
	a.events = append(a.events, core.Activated{Op: e.Op, Cell: e.Cell, OK: true})
}

func (a *actor) Deactivate(e core.Deactivate) {
	a.events = append(a.events, core.Deactivated{Op: e.Op, Cell: e.Cell})
}

func (a *actor) Dispatch(e core.Dispatch) {
	m := a.m()
	if m.clock >= e.NotAfter {
		a.events = append(a.events, core.Late{ID: e.ID})
		return
	}
	at := m.request(e.ID)
	if at < 0 {
		a.w.violated("%s runs a request that was ended", m.id)
		return
	}
	r := m.reqs[at]
	r.running, r.epoch = true, e.Epoch
	m.setRequest(at, r)
	a.w.judgeBegin(a.i, r)
}

func (a *actor) Answer(e core.Answer) {
	m := a.m()
	if m.clock >= e.NotAfter {
		a.events = append(a.events, core.Late{ID: e.ID})
		return
	}
	at := m.request(e.ID)
	if at < 0 {
		a.w.violated("L1: %s answers a request that had its end", m.id)
		return
	}
	r := m.reqs[at]
	if r.running {
		a.w.judgeBegin(a.i, r)
	}
	m.drop(at)
	a.w.reply(r, func(id core.RequestID) core.Event { return core.Ready{ID: id} })
	a.events = append(a.events, core.Done{ID: e.ID})
}

// Fail ends a request. What runs of it stops at once, or goes on for a moment.
func (a *actor) Fail(e core.Fail) {
	m := a.m()
	at := m.request(e.ID)
	if at < 0 || m.reqs[at].failed {
		a.w.violated("L1: %s fails a request that had its end", m.id)
		return
	}
	r := m.reqs[at]
	a.w.cancel(a.i, e.ID)
	a.w.reply(r, func(id core.RequestID) core.Event {
		how := core.PeerRefused
		if e.Failure.Code == core.CodeNotMine {
			how = core.NotMine
		}
		return core.ForwardFailed{ID: id, How: how, Refusal: e.Failure}
	})
	if r.running {
		r.failed, r.from = true, nil
		m.setRequest(at, r)
		return
	}
	m.drop(at)
}

// Abort ends a request whose answer was about to begin.
func (a *actor) Abort(e core.Abort) {
	m := a.m()
	at := m.request(e.ID)
	if at < 0 {
		return
	}
	r := m.reqs[at]
	m.drop(at)
	a.w.cancel(a.i, e.ID)
	a.w.reply(r, func(id core.RequestID) core.Event { return core.ForwardFailed{ID: id, How: core.ForwardBroken} })
	a.events = append(a.events, core.Done{ID: e.ID})
}

// End: every request has had its end by now.
func (a *actor) End(core.End) {
	for _, r := range a.m().reqs {
		if !r.failed {
			a.w.violated("L1: %s ends without an answer to a request for %s", a.m().id, cellNames[r.cell])
		}
	}
	a.w.endProcess(a.i)
}

// endProcess: whatever the process had under way goes on without it.
func (w *world) endProcess(i int) {
	m := &w.machines[i]
	for _, r := range m.reqs {
		w.cancel(i, r.id)
		w.reply(r, func(id core.RequestID) core.Event { return core.ForwardFailed{ID: id, How: core.ForwardBroken} })
	}
	w.leave(m.id)
	*m = machine{life: m.life, clock: m.clock}
	w.settle()
}

// reply tells the sender of a forwarded request how it ended.
func (w *world) reply(r req, ev func(core.RequestID) core.Event) {
	if r.from == nil {
		return
	}
	w.flight = append(w.flight, op{machine: r.from.machine, node: r.from.node, done: true, event: ev(r.from.id), to: r.from.id})
}

// cancel: a request had its end where it came from, and nobody waits for what
// becomes of it elsewhere.
func (w *world) cancel(i int, id core.RequestID) {
	node := w.machines[i].id
	w.flight = slices.DeleteFunc(w.flight, func(o op) bool {
		f, forward := o.effect.(core.Forward)
		return o.node == node && (forward && f.ID == id || o.to == id)
	})
	for j := range w.machines {
		for k, r := range w.machines[j].reqs {
			if r.from != nil && r.from.node == node && r.from.id == id {
				r.from = nil
				w.machines[j].setRequest(k, r)
			}
		}
	}
}

// settle drops what nobody waits for any more, but for writes that can still land.
func (w *world) settle() {
	kept := w.flight[:0]
	for _, o := range w.flight {
		if !o.orphan && !w.awaited(o) {
			if o.done || !isWrite(o.effect) {
				continue
			}
			o.orphan = true
		}
		if o.orphan && !w.canLand(o) {
			continue
		}
		kept = append(kept, o)
	}
	clear(w.flight[len(kept):])
	w.flight = kept
}

// canLand: no version ever comes back, so a write that expects another than there
// is can land no more, unless the record it would create is deleted first.
func (w *world) canLand(o op) bool {
	switch e := o.effect.(type) {
	case core.WriteOwner:
		return w.cells[cellIndex(e.Cell)].version == e.Expect
	case core.WriteLease:
		at := w.leaseOf(e.Lease.Node)
		return at < 0 && e.Expect == "" || at >= 0 && (w.leases[at].version == e.Expect || e.Expect == "" && w.may(Delete))
	}
	return false
}

// leave notes that a session has ended.
func (w *world) leave(id core.NodeID) {
	if id != "" {
		w.gone = append(w.gone[:len(w.gone):len(w.gone)], id)
	}
}

// collect has everybody forget the sessions that have ended and that nothing leads
// to any more: no ownership record, no cell or request of a node, nothing under way.
// What is known of them can change nothing, and would only make states differ.
func (w *world) collect() {
	for _, id := range w.gone {
		if w.named(id) {
			continue
		}
		w.gone = slices.DeleteFunc(slices.Clone(w.gone), func(n core.NodeID) bool { return n == id })
		for i := range w.machines {
			if m := &w.machines[i]; m.state != nil {
				m.state, m.form = m.state.Clone(), nil
				m.state.Forget(id)
			}
		}
		w.leases = slices.DeleteFunc(w.leases, func(l *lease) bool { return l.Node == id })
		w.flight = slices.DeleteFunc(w.flight, func(o op) bool {
			wr, write := o.effect.(core.WriteLease)
			return write && wr.Lease.Node == id || about(o) == id
		})
		w.settle()
		return // one at a time: what is gone has changed
	}
}

// named reports whether anything leads to a session that has ended.
func (w *world) named(id core.NodeID) bool {
	for _, r := range w.cells {
		if r.Node == id {
			return true
		}
	}
	for i := range w.machines {
		if m := &w.machines[i]; m.state != nil && (m.state.Names(id) || len(m.todo) > 0) {
			return true
		}
	}
	for _, o := range w.flight {
		if wr, write := o.effect.(core.WriteOwner); write && !o.done && wr.Owner.Node == id {
			return true
		}
		if ev, read := o.event.(core.OwnerRead); read && ev.Owner.Node == id {
			return true
		}
		if _, list := o.event.(core.LeasesListed); list {
			return true
		}
		if f, forward := o.effect.(core.Forward); forward && f.Node == id {
			return true
		}
	}
	return false
}

// about is the node that an operation asks about.
func about(o op) core.NodeID {
	switch e := o.effect.(type) {
	case core.ReadLease:
		return e.Node
	case core.Probe:
		return e.Node
	}
	return ""
}

func (w *world) awaited(o op) bool {
	m := &w.machines[o.machine]
	if m.state == nil || m.id != o.node {
		return false
	}
	if o.to != 0 {
		return m.request(o.to) >= 0
	}
	if _, forward := o.effect.(core.Forward); forward {
		return true // cancel ends it
	}
	return m.state.Awaits(o.effect)
}

func isWrite(e core.Effect) bool {
	switch e.(type) {
	case core.WriteLease, core.WriteOwner:
		return true
	}
	return false
}
