package node

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/tenure-go/tenure/core"
)

// hosted is what the Host made of the cells that are active here.
type hosted struct {
	sync.RWMutex
	cells map[core.CellName]hostedCell
}

type hostedCell struct {
	handler http.Handler
	epoch   core.Epoch
	// busy is closed when the call of the Host that is under way for the cell
	// has returned; nil if none is.
	busy chan struct{}
}

// Handler returns what the Host made of a cell for an epoch; nil if it is not
// active.
func (n *Node) Handler(cell core.CellName, epoch core.Epoch) http.Handler {
	n.hosted.RLock()
	defer n.hosted.RUnlock()
	if c := n.hosted.cells[cell]; c.epoch == epoch {
		return c.handler
	}
	return nil
}

// turn makes the next call of the Host for a cell: it returns what is known of
// the cell, the end of the call before, and what to close at the end of this
// one.
func (h *hosted) turn(cell core.CellName, next hostedCell) (old hostedCell, end chan struct{}) {
	h.Lock()
	defer h.Unlock()
	old, end = h.cells[cell], make(chan struct{})
	next.busy = end
	h.cells[cell] = next
	return old, end
}

// finish ends a call: the cell is kept as given, or forgotten without a
// handler, unless another call has its turn already.
func (h *hosted) finish(cell core.CellName, c hostedCell, end chan struct{}) {
	h.Lock()
	defer h.Unlock()
	close(end)
	switch {
	case h.cells[cell].busy != end:
	case c.handler == nil:
		delete(h.cells, cell)
	default:
		h.cells[cell] = c
	}
}

func (x executor) Activate(e core.Activate) {
	if x.cfg.Host == nil {
		x.pending = append(x.pending, core.Activated{Op: e.Op, Cell: e.Cell, OK: true})
		return
	}
	before, end := x.hosted.turn(e.Cell, hostedCell{epoch: e.Epoch})
	x.cfg.Go(func() {
		ctx, cancel := x.until(e.Deadline)
		defer cancel()
		h, err := x.activate(ctx, before, e)
		x.hosted.finish(e.Cell, hostedCell{handler: h, epoch: e.Epoch}, end)
		ev := core.Activated{Op: e.Op, Cell: e.Cell, OK: err == nil}
		if err != nil {
			ev.Detail = err.Error()
		}
		x.post(ev)
	})
}

func (n *Node) activate(ctx context.Context, before hostedCell, e core.Activate) (http.Handler, error) {
	if before.busy != nil {
		if err := waitFor(ctx, before.busy); err != nil {
			return nil, err
		}
	}
	h, err := n.cfg.Host.Activate(ctx, e)
	if err == nil && h == nil {
		h = http.NotFoundHandler()
	}
	if err != nil {
		h = nil
	}
	return h, err
}

func (x executor) Deactivate(e core.Deactivate) {
	if x.cfg.Host == nil {
		x.pending = append(x.pending, core.Deactivated{Op: e.Op, Cell: e.Cell})
		return
	}
	before, end := x.hosted.turn(e.Cell, hostedCell{})
	x.cfg.Go(func() {
		ctx, cancel := x.until(e.Deadline)
		defer cancel()
		x.deactivate(ctx, before, e)
		x.hosted.finish(e.Cell, hostedCell{}, end)
		x.post(core.Deactivated{Op: e.Op, Cell: e.Cell})
	})
}

// deactivate waits for the activation to return, however long that takes: the
// Host's calls for one cell never overlap.
func (n *Node) deactivate(ctx context.Context, before hostedCell, e core.Deactivate) {
	if before.busy != nil {
		waitFor(context.WithoutCancel(ctx), before.busy)
	}
	n.cfg.Host.Deactivate(ctx, e)
}

// endHosted tells the Host of every cell that the session left active: at a
// fence, as best it can within a second.
func (n *Node) endHosted() {
	if n.cfg.Host == nil {
		return
	}
	n.hosted.Lock()
	cells := n.hosted.cells
	n.hosted.cells = map[core.CellName]hostedCell{}
	n.hosted.Unlock()
	reason := core.Reason("session over")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	work := make(chan core.Deactivate)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for d := range work {
				n.cfg.Host.Deactivate(ctx, d)
			}
		})
	}
	n.cfg.Go(func() {
		defer cancel()
		for name, c := range cells {
			if c.handler != nil {
				work <- core.Deactivate{Cell: name, Epoch: c.epoch, Reason: reason}
			}
		}
		close(work)
		wg.Wait()
	})
}
