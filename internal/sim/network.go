package sim

import (
	"context"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// hop is one forwarded request, between two processes.
type hop struct {
	w    *world
	from *proc
	to   *proc // nil: it never arrived
	ask  *ask  // there
	done bool
	end  hopEnd
}

// hopEnd is how a hop ended, as the forwarding node sees it.
type hopEnd struct {
	answered bool
	how      core.ForwardFailure
	refusal  core.Failure
}

// forward sends a request to the owner. It reports whether the request has had
// its end.
func (p *proc) forward(call *node.Call, a *ask, e core.Forward) bool {
	p.w.stats.Forwarded++
	h := &hop{w: p.w, from: p}
	h.send(a, e)
	p.park(func() bool { return h.done || call.Context().Err() != nil })
	if !h.done {
		h.abandon()
		call.ForwardFailed(core.ForwardBroken, core.Failure{})
		return false
	}
	if !h.end.answered {
		call.ForwardFailed(h.end.how, h.end.refusal)
		return false
	}
	f, ok := call.Ready(call.Context())
	if !ok {
		h.abandon()
		p.refuse(a, f)
		return true
	}
	if p.overNow() {
		p.w.violated("S7", "%s lets an answer out after its end", p.name)
	}
	p.answer(a)
	return true
}

// send connects and delivers the request.
func (h *hop) send(a *ask, e core.Forward) {
	w, p := h.w, h.from
	w.in(leg(p.rng), func() {
		m := w.machineAt(e.Contact.Addr)
		switch q := m.proc; {
		case w.separated(p.m, m):
			h.fail(w.plan.ttl/6, core.NotConnected)
		case q == nil && p.rng.IntN(4) == 0: // the machine is gone too
			h.fail(w.plan.ttl/6, core.NotConnected)
		case q == nil || q.over || q.contact.Key != e.Contact.Key:
			h.fail(leg(p.rng), core.NotConnected)
		case w.t < q.stopped && p.rng.IntN(2) == 0: // no connection was left from before
			h.fail(w.plan.ttl/6, core.NotConnected)
		default:
			h.deliver(a, q)
		}
	})
}

func (h *hop) deliver(a *ask, q *proc) {
	w := h.w
	left := a.by - w.t
	if left <= 0 {
		left = millisecond
	}
	b := &ask{record: a.record, cell: a.cell, from: h, by: a.by}
	b.ctx, b.leave = context.WithCancel(context.Background())
	h.to, h.ask = q, b
	q.inbound = append(q.inbound, h)
	if h.done { // given up in the meantime
		h.abandon()
	}
	if f := w.struck(h.from.m, kindLost); f != nil && f.mode%2 == 0 && f.roll(f.odds/2) {
		h.fail(leg(h.from.rng), core.ForwardBroken)
	}
	q.start(func() {
		q.serve(b, time.Duration(left))
		q.forget(h)
	})
}

func (p *proc) forget(h *hop) {
	for i, o := range p.inbound {
		if o == h {
			p.inbound = append(p.inbound[:i], p.inbound[i+1:]...)
			return
		}
	}
}

// fail ends a hop at the forwarding node.
func (h *hop) fail(after int64, how core.ForwardFailure) {
	h.w.in(after, func() { h.finish(hopEnd{how: how}) })
}

// finish is what the forwarding node hears, once.
func (h *hop) finish(end hopEnd) {
	if !h.done {
		h.done, h.end = true, end
		h.from.poke()
	}
}

// reply carries the end back.
func (h *hop) reply(q *proc, end hopEnd) {
	w := h.w
	w.in(leg(q.rng), func() {
		if !w.separated(q.m, h.from.m) {
			h.finish(end)
		}
	})
}

// breakOff: the process that it was sent to is gone, and its machine says so.
func (h *hop) breakOff(q *proc) {
	h.reply(q, hopEnd{how: core.ForwardBroken})
}

// abandon: the forwarding node closes the connection.
func (h *hop) abandon() {
	h.done = true
	w := h.w
	w.in(leg(h.from.rng), func() {
		if h.ask != nil && !w.separated(h.from.m, h.to.m) {
			h.ask.hangUp(h.to)
		}
	})
}
