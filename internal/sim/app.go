package sim

import (
	"context"
	"errors"
	"net/http"

	"github.com/tenure-go/tenure/core"
)

// app is the application of one cell in one process, at one epoch. It remembers
// the last request that it ran; a new epoch begins with nothing.
type app struct {
	epoch   core.Epoch
	last    uint64
	running int
	ready   bool
	busy    bool // a hook is under way
}

// host is the process's application: a node.Host.
type host struct{ p *proc }

var errHook = errors.New("the application says no")

// Activate implements node.Host.
func (h host) Activate(ctx context.Context, a core.Activate) (http.Handler, error) {
	p := h.p
	if old := p.apps[a.Cell]; old != nil {
		p.w.violated("hooks", "%s activates %s at epoch %d, and it is active at %d", p.name, a.Cell, a.Epoch, old.epoch)
	}
	now := &app{epoch: a.Epoch, busy: true}
	p.apps[a.Cell] = now
	err := h.hook(ctx)
	if now.busy = false; err != nil {
		return nil, err
	}
	now.ready = true
	return nil, nil
}

// Deactivate implements node.Host.
func (h host) Deactivate(ctx context.Context, d core.Deactivate) {
	p := h.p
	now := p.apps[d.Cell]
	switch {
	case now == nil || now.epoch != d.Epoch:
		p.w.violated("hooks", "%s deactivates %s at epoch %d, which is not active: %+v", p.name, d.Cell, d.Epoch, now)
		return
	case now.busy:
		p.w.violated("hooks", "%s deactivates %s at epoch %d while another hook of it runs", p.name, d.Cell, d.Epoch)
	case now.running > 0 && !p.overNow():
		p.w.violated("hooks", "%s deactivates %s while %d requests run on it", p.name, d.Cell, now.running)
	}
	now.ready, now.busy = false, true
	_ = h.hook(ctx) // it is over whatever the application says
	delete(p.apps, d.Cell)
}

// overNow: the session is over, though nothing of it may have gone on since.
func (p *proc) overNow() bool { return isClosed(p.n.Done()) }

// hook takes a little time, and fails or hangs during such a fault.
func (h host) hook(ctx context.Context) error {
	p := h.p
	ended := func() bool { return ctx.Err() != nil }
	f := p.w.struck(p.m, kindHooks)
	switch {
	case f != nil && f.roll(300):
		p.park(func() bool { return ended() || p.w.calm })
		return errHook
	case f != nil && f.roll(400):
		p.sleep(int64(f.number(1000))*p.w.plan.ttl/1000, ended)
		return errHook
	}
	p.sleep(leg(p.rng), ended)
	return nil
}

// run executes a request on its cell: once, at an instant within its work.
func (a *app) run(w *world, r *record, p *proc) {
	if r.executed {
		w.violated("once", "request %d for %s ran at epoch %d, and again at %d", r.id, r.cell, r.epoch, a.epoch)
	}
	if r.refused {
		w.violated("L1", "request %d for %s ran on %s after it was refused as one that was not run", r.id, r.cell, p.name)
	}
	r.executed, r.epoch, r.prior = true, a.epoch, a.last
	a.last = r.id
}
