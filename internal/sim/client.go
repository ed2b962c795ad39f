package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// clients send requests to the nodes, for cells of which some are wanted more.
type clients struct {
	rng *rand.Rand
}

// ask is one request at one node. One that is forwarded is an ask at each of two.
type ask struct {
	record   *record // nil: for a request to own a cell
	cell     core.CellName
	own, try bool
	from     *hop  // that brought it here
	by       int64 // real time when its client gives up waiting
	ctx      context.Context
	leave    context.CancelFunc
	settled  bool
	begun    bool
	failure  core.Failure
}

// someCell draws a cell with numbers from n.
func (*clients) someCell(n func(int) int, w *world) int {
	if w.plan.hot && n(10) < 7 {
		return n(min(w.cfg.Cells, 5))
	}
	return n(w.cfg.Cells)
}

// traffic sends a request, and plans the next.
func (w *world) traffic() {
	if w.calm || w.cfg.Rate <= 0 || w.cfg.Cells == 0 {
		return
	}
	r := w.clients.rng
	w.in(int64(r.ExpFloat64()*float64(second)/w.cfg.Rate), w.traffic)
	m, cell := w.machines[r.IntN(len(w.machines))], w.cell(w.clients.someCell(r.IntN, w))
	patience := pick(r, w.plan.ttl/20, w.plan.ttl/4, w.plan.ttl/2, w.plan.ttl*2)
	own, try, leaves := r.IntN(12) == 0, r.IntN(2) == 0, r.IntN(16) == 0
	after := r.Int64N(w.plan.ttl / 10)
	if m.proc == nil {
		return // nobody listens
	}
	a := m.proc.request(cell, patience, own, own && try)
	if f := w.struck(m, kindHangup); leaves && w.enabled(kindHangup) || f != nil && f.roll(f.odds) {
		w.in(after, func() { a.hangUp(m.proc) })
	}
}

// hangUp: the client goes away.
func (a *ask) hangUp(p *proc) {
	a.leave()
	if p != nil {
		p.poke()
	}
}

// request has a client ask a process for a cell.
func (p *proc) request(cell core.CellName, patience int64, own, try bool) *ask {
	a := &ask{cell: cell, own: own, try: try, by: p.w.t + patience}
	a.ctx, a.leave = context.WithCancel(context.Background())
	p.w.stats.Requests++
	if !own {
		a.record = p.w.history.begin(cell, p.w.t)
	}
	p.start(func() { p.serve(a, time.Duration(patience)) })
	return a
}

// serve takes a request through the node, as a gateway does.
func (p *proc) serve(a *ask, timeout time.Duration) {
	call := p.n.Begin(a.ctx, node.Request{Cell: a.cell, Forwarded: a.from != nil, Own: a.own, Try: a.try, Timeout: timeout})
	for more := true; more; {
		switch e := call.Next(call.Context()).(type) {
		case core.Dispatch:
			p.dispatch(call, a, e)
			more = false
		case core.Forward:
			more = !p.forward(call, a, e)
		case core.Fail:
			p.refuse(a, e.Failure)
			more = false
		default:
			p.w.violated("L1", "%s decided %T%+v on a request that had not begun", p.name, e, e)
			more = false
		}
	}
	call.Done()
	a.leave()
}

// dispatch runs a request here.
func (p *proc) dispatch(call *node.Call, a *ask, e core.Dispatch) {
	p.w.stats.Dispatched++
	p.mayBegin(e.Cell, e.Epoch, "a dispatch")
	ended := func() bool { return call.Context().Err() != nil }
	it := p.apps[e.Cell]
	if it == nil || it.epoch != e.Epoch || !it.ready {
		p.w.violated("hooks", "%s dispatches to %s at epoch %d, where %+v is active", p.name, e.Cell, e.Epoch, it)
		return
	}
	it.running++
	if a.own {
		a.settled, a.begun = true, true
		p.sleep(p.rng.Int64N(p.w.plan.ttl), ended)
	} else {
		p.work(call, a, it, ended)
	}
	it.running--
}

// work is the application's, and then its answer.
func (p *proc) work(call *node.Call, a *ask, it *app, ended func() bool) {
	long := leg(p.rng)
	if p.rng.IntN(20) == 0 && !p.w.calm {
		long = p.rng.Int64N(p.w.plan.ttl)
	}
	p.sleep(p.rng.Int64N(long+1), ended)
	// The application works on, whoever has left; sometimes it never began.
	if ended() && p.rng.IntN(2) == 0 {
		p.refuse(a, core.Failure{Ran: true})
		return
	}
	it.run(p.w, a.record, p)
	p.sleep(p.rng.Int64N(long+1), ended)
	f, ok := call.Ready(call.Context())
	if !ok {
		p.refuse(a, f)
		return
	}
	p.mayBegin(a.cell, it.epoch, "an answer")
	p.answer(a)
	if p.rng.IntN(12) == 0 && !p.w.calm { // a stream
		p.sleep(p.rng.Int64N(p.w.plan.ttl), ended)
	}
}

// answer lets the answer out, to the client or to the node that forwarded.
func (p *proc) answer(a *ask) {
	a.settled, a.begun = true, true
	if a.from != nil {
		a.from.reply(p, hopEnd{answered: true})
		return
	}
	p.w.stats.Answered++
	p.w.ack(a.record)
}

// refuse tells the client, or the node that forwarded, that there is no answer.
func (p *proc) refuse(a *ask, f core.Failure) {
	a.settled, a.failure = true, f
	if a.from != nil {
		a.from.reply(p, refusal(f))
		return
	}
	p.w.stats.Refused++
	if !f.Ran && a.record != nil {
		if a.record.executed {
			p.w.violated("L1", "%s says that request %d for %s was not run, and it was: %+v", p.name, a.record.id, a.cell, f)
		}
		a.record.refused = true
	}
}

// refusal is what the forwarding node makes of a failure.
func refusal(f core.Failure) hopEnd {
	if f.Code == core.CodeNotMine {
		return hopEnd{how: core.NotMine}
	}
	return hopEnd{how: core.PeerRefused, refusal: f}
}
