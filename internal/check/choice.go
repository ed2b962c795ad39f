package check

import (
	"github.com/tenure-go/tenure/core"
)

// choice is one thing that can happen next.
type choice struct {
	kind kind
	a, b uint8
}

type kind uint8

const (
	noChoice kind = iota
	passTime      // one unit
	tick          // machine a does what the time asks for
	deliver       // operation a is carried out, if it was not yet, and answered
	perform       // operation a is carried out; its answer comes later, or never
	finish        // request b on machine a is done in the application
	arrive        // a client sends machine a a request for cell b
	evict         // somebody has machine a give up cell b
	boot          // a process starts on machine a
	thaw          // the process on machine a goes on
	// Faults from here on.
	crash     // of machine a
	freeze    // of machine a
	drain     // of machine a
	remove    // of the lease record of the process on machine a
	loseReply // operation a is carried out, and its answer lost
	loseCall  // operation a never gets there
	slowReply // operation a takes any time, and so does its answer
	landLater // operation a, a write, takes any time, and its answer is lost
	refuse    // the store does not take operation a
	contend   // another write is said to be under way
	cut       // operation a fails
)

// costs is the kind of fault that a choice is.
var costs = [...]Fault{
	crash: Crash, freeze: Pause, drain: Drain, remove: Delete, loseReply: Lost, loseCall: Lost,
	slowReply: Late, landLater: Delay, refuse: Refuse, contend: Refuse, cut: Cut,
}

// choices appends all that can happen next.
//
// What the time asks of a process comes before all else: whatever reaches the
// process at that instant, its core does first what the time asks for; and until the
// process has done so, nobody else can tell. So no other order shows anything new.
func (w *world) choices(cs []choice) []choice {
	for i := range w.machines {
		if m := &w.machines[i]; w.live(i) && m.state.Next() <= m.clock {
			w.stoppable(&cs, choice{kind: tick, a: uint8(i)})
		}
	}
	if len(cs) > 0 {
		return cs
	}
	busy := false
	for i := range w.flight {
		urgent := w.opChoices(i, &cs)
		busy = busy || urgent
	}
	for i := range w.machines {
		urgent := w.machineChoices(i, &cs)
		busy = busy || urgent
	}
	if !busy {
		cs = append(cs, choice{kind: passTime})
	}
	return cs
}

// may reports whether a fault of that kind is left.
func (w *world) may(f Fault) bool { return w.budget[f] > 0 }

// stoppable adds a choice that gives a process an event, and the same with a stop
// of the process before it acts on it.
func (w *world) stoppable(cs *[]choice, c choice) {
	*cs = append(*cs, c)
	if w.may(Pause) {
		c.kind |= stopBit
		*cs = append(*cs, c)
	}
}

// stopBit marks the choice in which the process then stops.
const stopBit kind = 0x80

// opChoices: an operation that is not slow is urgent, for time does not pass while
// it is under way, unless it waits for a process that is stopped.
func (w *world) opChoices(i int, cs *[]choice) (urgent bool) {
	o, a := &w.flight[i], uint8(i)
	heard := !o.orphan && w.live(o.machine)
	target := w.target(o)
	switch {
	case o.done:
		if heard {
			w.stoppable(cs, choice{kind: deliver, a: a})
		}
		return heard && !o.slow
	case target == frozen:
		w.peerFaults(o, a, cs)
		return false
	case target == peer: // it hears at once, and answers later
		*cs = append(*cs, choice{kind: deliver, a: a})
		w.peerFaults(o, a, cs)
		return true
	}
	if heard {
		w.stoppable(cs, choice{kind: deliver, a: a})
	}
	if !heard || o.slow {
		*cs = append(*cs, choice{kind: perform, a: a})
	}
	if target == store && !o.slow && !o.orphan {
		w.storeFaults(o, a, cs)
	}
	return !o.slow
}

// Where an operation goes.
const (
	store  = iota
	peer   // a process that hears of it
	frozen // one that is stopped
	nobody // a process that is no more
)

func (w *world) target(o *op) int {
	var id core.NodeID
	switch e := o.effect.(type) {
	case core.Forward:
		id = e.Node
	case core.Probe:
		id = e.Node
	default:
		return store
	}
	switch j := w.running(id); {
	case j < 0:
		return nobody
	case w.machines[j].frozen:
		return frozen
	}
	if _, probe := o.effect.(core.Probe); probe {
		return nobody // answered at once, one way or the other
	}
	return peer
}

func (w *world) storeFaults(o *op, a uint8, cs *[]choice) {
	write := isWrite(o.effect)
	if w.may(Lost) {
		if write {
			*cs = append(*cs, choice{kind: loseReply, a: a})
		}
		*cs = append(*cs, choice{kind: loseCall, a: a})
	}
	if w.may(Late) {
		*cs = append(*cs, choice{kind: slowReply, a: a})
	}
	if w.may(Delay) && write {
		*cs = append(*cs, choice{kind: landLater, a: a})
	}
	if w.may(Refuse) {
		*cs = append(*cs, choice{kind: refuse, a: a})
		if write {
			*cs = append(*cs, choice{kind: contend, a: a})
		}
	}
}

func (w *world) peerFaults(o *op, a uint8, cs *[]choice) {
	if w.may(Cut) && w.live(o.machine) {
		*cs = append(*cs, choice{kind: cut, a: a}, choice{kind: cut, a: a, b: 1})
	}
}

// machineChoices: what a process has to do is urgent.
func (w *world) machineChoices(i int, cs *[]choice) (urgent bool) {
	m, a := &w.machines[i], uint8(i)
	switch {
	case m.state == nil:
		if m.life == 0 || !w.cfg.NoRestart {
			*cs = append(*cs, choice{kind: boot, a: a})
		}
		return false
	case m.frozen:
		*cs = append(*cs, choice{kind: thaw, a: a})
		if w.may(Crash) {
			*cs = append(*cs, choice{kind: crash, a: a})
		}
		return false
	}
	for _, r := range m.reqs {
		if r.running {
			w.stoppable(cs, choice{kind: finish, a: a, b: uint8(r.id)})
			urgent = true
		}
	}
	w.clientChoices(i, cs)
	for _, f := range [...]struct {
		kind kind
		ok   bool
	}{
		{crash, true}, {freeze, true}, {drain, !m.state.Draining()}, {remove, w.leaseOf(m.id) >= 0},
	} {
		if f.ok && w.may(costs[f.kind]) {
			*cs = append(*cs, choice{kind: f.kind, a: a})
		}
	}
	return urgent
}

// clientChoices: what may come to a process from outside.
func (w *world) clientChoices(i int, cs *[]choice) {
	m := &w.machines[i]
	open := 0
	for j := range w.machines {
		if w.machines[j].request(1) >= 0 {
			open++
		}
	}
	for c := range w.cells {
		if open < w.cfg.Requests && m.request(1) < 0 && m.state.Held() {
			w.stoppable(cs, choice{kind: arrive, a: uint8(i), b: uint8(c)})
		}
		if v, _ := m.state.Cell(cellNames[c]); w.cfg.Evict && v.Phase == "owned" {
			*cs = append(*cs, choice{kind: evict, a: uint8(i), b: uint8(c)})
		}
	}
}

// make returns the world after a choice.
func (w *world) make(c choice) *world {
	n := w.copy()
	n.tellChoice(w, c)
	stop := c.kind&stopBit != 0
	c.kind &^= stopBit
	if stop {
		n.budget[Pause]--
	}
	if c.kind >= crash {
		n.budget[costs[c.kind]]--
	}
	n.happen(c, stop)
	n.settle()
	n.collect()
	n.judgeMoment()
	return n
}

func (w *world) happen(c choice, stop bool) {
	i := int(c.a)
	switch c.kind {
	case passTime:
		w.passTime()
	case tick:
		w.step(i, core.Tick{}, stop)
	case deliver:
		w.deliver(i, stop)
	case finish:
		w.finish(i, core.RequestID(c.b), stop)
	case arrive:
		m := &w.machines[i]
		r := req{id: 1, cell: int(c.b), deadline: m.clock + patience}
		m.setRequests(r)
		w.step(i, core.Arrive{ID: 1, Cell: cellNames[c.b], Deadline: r.deadline}, stop)
	case evict:
		w.step(i, core.Evict{Cell: cellNames[c.b]}, false)
	case boot:
		w.boot(i)
	case thaw:
		w.machines[i].frozen = false
		w.machines[i].state = w.machines[i].state.Clone()
		w.act(i)
	case crash:
		w.endProcess(i)
	case freeze:
		w.machines[i].frozen = true
	case drain:
		w.step(i, core.Drain{}, false)
	case remove:
		at := w.leaseOf(w.machines[i].id)
		w.leases = append(w.leases[:at:at], w.leases[at+1:]...)
	default:
		w.opHappens(i, c)
	}
}

// opHappens is what an operation meets.
func (w *world) opHappens(i int, c choice) {
	o := &w.flight[i]
	switch c.kind {
	case perform:
		if e, probe := o.effect.(core.Probe); probe {
			o.event = core.Probed{Op: e.Op, Node: e.Node, OK: w.running(e.Node) >= 0}
		} else if f, forward := o.effect.(core.Forward); forward {
			o.event = core.ForwardFailed{ID: f.ID, How: core.NotConnected}
		} else {
			o.event = w.perform(*o)
		}
		o.done = true
		if o.orphan {
			w.remove(i)
		}
	case loseReply:
		w.perform(*o)
		w.remove(i)
	case loseCall:
		w.remove(i)
	case slowReply:
		o.slow = true
	case landLater:
		o.slow, o.orphan = true, true
	case refuse, contend:
		ev := refused(o.effect, c.kind == contend)
		w.step(w.remove(i).machine, ev, false)
	case cut:
		w.cut(i, c.b == 1)
	}
}

// setRequests adds a request.
func (m *machine) setRequests(r req) {
	m.reqs = append(m.reqs[:len(m.reqs):len(m.reqs)], r)
}

// passTime moves every clock on. With Rates the first node's misses one unit in
// each TTL, and the last one's has one more.
func (w *world) passTime() {
	w.judgeWaits()
	w.now++
	turn := w.cfg.Rates && w.now%w.cfg.settings().TTL == 0
	for i := range w.machines {
		m := &w.machines[i]
		m.clock++
		m.form = nil
		if turn && i == 0 {
			m.clock--
		}
		if turn && i > 0 && i == len(w.machines)-1 {
			m.clock++
		}
	}
}

// deliver carries an operation out, if it was not yet, and gives the answer to
// whoever began it; or a message to its receiver.
func (w *world) deliver(i int, stop bool) {
	o := w.remove(i)
	if o.done {
		w.step(o.machine, o.event, stop)
		return
	}
	switch e := o.effect.(type) {
	case core.Probe:
		w.step(o.machine, core.Probed{Op: e.Op, Node: e.Node, OK: w.running(e.Node) >= 0}, stop)
	case core.Forward:
		j := w.running(e.Node)
		if j < 0 {
			w.step(o.machine, core.ForwardFailed{ID: e.ID, How: core.NotConnected}, stop)
			return
		}
		m := &w.machines[j]
		r := req{id: m.freeID(), cell: cellIndex(e.Cell), deadline: m.clock + patience, from: &origin{machine: o.machine, node: o.node, id: e.ID}}
		m.setRequests(r)
		w.step(j, core.Arrive{ID: r.id, Cell: e.Cell, Deadline: r.deadline, Forwarded: true}, stop)
	default:
		w.step(o.machine, w.perform(o), stop)
	}
}

// finish: the application is done with a request, whose answer is there, or which
// had its end before.
func (w *world) finish(i int, id core.RequestID, stop bool) {
	m := &w.machines[i]
	at := m.request(id)
	if m.reqs[at].failed {
		m.drop(at)
		w.step(i, core.Done{ID: id}, stop)
		return
	}
	w.step(i, core.Ready{ID: id}, stop)
}

// cut: the message does not get there, or gets there and its answer is not heard.
func (w *world) cut(i int, there bool) {
	o := w.remove(i)
	switch e := o.effect.(type) {
	case core.Probe:
		w.step(o.machine, core.Probed{Op: e.Op, Node: e.Node}, false)
	case core.Forward:
		how := core.NotConnected
		if j := w.running(e.Node); there && j >= 0 && w.live(j) {
			how = core.ForwardBroken
			m := &w.machines[j]
			r := req{id: m.freeID(), cell: cellIndex(e.Cell), deadline: m.clock + patience}
			m.setRequests(r)
			w.step(j, core.Arrive{ID: r.id, Cell: e.Cell, Deadline: r.deadline, Forwarded: true}, false)
		}
		w.step(o.machine, core.ForwardFailed{ID: e.ID, How: how}, false)
	}
}
