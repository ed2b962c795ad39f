package node

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/core"
)

// hosted is what the Host made of the cells that are active here.
type hosted struct {
	sync.RWMutex
	cells map[core.CellName]hostedCell
	over  bool // the session is: nothing is kept any more
}

type hostedCell struct {
	handler http.Handler
	epoch   core.Epoch
	// busy is the call of the Host that is under way for the cell, nil if none
	// is.
	busy *turn
}

// turn is one call of the Host for a cell: they take turns.
type turn struct {
	done chan struct{} // closed when it has returned
	// skipped, valid when done is closed: an activation that never began.
	skipped bool
	// followed: another turn was taken after this one. After an activation that is
	// always the deactivation of the same epoch.
	followed bool
}

// endOfTurn waits for the end of a turn, if there is one.
func (n *Node) endOfTurn(ctx context.Context, t *turn) error {
	if t == nil {
		return nil
	}
	return n.waitFor(ctx, t.done)
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

// next takes the next turn for a cell, after the one returned.
func (h *hosted) next(cell core.CellName, epoch core.Epoch) (before, t *turn) {
	h.Lock()
	defer h.Unlock()
	before, t = h.cells[cell].busy, &turn{done: make(chan struct{})}
	if before != nil {
		before.followed = true
	}
	h.cells[cell] = hostedCell{epoch: epoch, busy: t}
	return before, t
}

// finish ends a turn: the cell is kept as given, or forgotten without a handler,
// unless another call has its turn already. It reports false if the session is
// over and nobody will end what the call began.
func (h *hosted) finish(cell core.CellName, c hostedCell, t *turn) bool {
	h.Lock()
	defer h.Unlock()
	close(t.done)
	switch {
	case h.over:
		return t.followed
	case h.cells[cell].busy != t:
	case c.handler == nil:
		delete(h.cells, cell)
	default:
		h.cells[cell] = c
	}
	return true
}

func (x executor) Activate(e core.Activate) {
	if x.cfg.Host == nil {
		x.pending = append(x.pending, core.Activated{Op: e.Op, Cell: e.Cell, OK: true})
		return
	}
	before, t := x.hosted.next(e.Cell, e.Epoch)
	x.cfg.Go(func() {
		ctx, cancel := x.until(e.Deadline)
		defer cancel()
		if err := x.endOfTurn(ctx, before); err != nil {
			x.post(core.Activated{Op: e.Op, Cell: e.Cell, Detail: "the cell's earlier epoch does not end: " + err.Error()})
			_ = x.endOfTurn(context.Background(), before) // the Host's calls for one cell never overlap
			t.skipped = true
			x.hosted.finish(e.Cell, hostedCell{}, t)
			return
		}
		ev := core.Activated{Op: e.Op, Cell: e.Cell}
		h, err := x.activate(ctx, e)
		if ev.OK = err == nil; err != nil {
			ev.Detail = err.Error()
		}
		if !x.hosted.finish(e.Cell, hostedCell{handler: h, epoch: e.Epoch}, t) {
			x.cfg.Host.Deactivate(ctx, core.Deactivate{Cell: e.Cell, Epoch: e.Epoch, Reason: sessionOver})
		}
		x.post(ev)
	})
}

func (n *Node) activate(ctx context.Context, e core.Activate) (http.Handler, error) {
	h, err := n.cfg.Host.Activate(ctx, e)
	switch {
	case err != nil:
		return nil, err
	case h == nil:
		return http.NotFoundHandler(), nil
	}
	return h, nil
}

func (x executor) Deactivate(e core.Deactivate) {
	if x.cfg.Host == nil {
		x.pending = append(x.pending, core.Deactivated{Op: e.Op, Cell: e.Cell})
		return
	}
	before, t := x.hosted.next(e.Cell, 0)
	x.cfg.Go(func() {
		_ = x.endOfTurn(context.Background(), before) // an activation that was given up
		if before == nil || !before.skipped {
			ctx, cancel := x.until(e.Deadline)
			defer cancel()
			x.cfg.Host.Deactivate(ctx, e)
		}
		x.hosted.finish(e.Cell, hostedCell{}, t)
		x.post(core.Deactivated{Op: e.Op, Cell: e.Cell})
	})
}

const sessionOver core.Reason = "session over"

// endHosted tells the Host of every cell that the session left active: at a
// fence, as best it can within a second.
func (n *Node) endHosted() {
	if n.cfg.Host == nil {
		return
	}
	n.hosted.Lock()
	cells := n.hosted.cells
	n.hosted.cells, n.hosted.over = map[core.CellName]hostedCell{}, true
	n.hosted.Unlock()
	var left []core.Deactivate
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		if c := cells[name]; c.handler != nil {
			left = append(left, core.Deactivate{Cell: name, Epoch: c.epoch, Reason: sessionOver})
		}
	}
	ctx, cancel := n.clock.Until(context.Background(), n.clock.Now()+core.Time(time.Second))
	workers := min(len(left), 32)
	var taken, ended atomic.Int64
	if workers == 0 {
		cancel()
	}
	for range workers {
		n.cfg.Go(func() {
			for i := taken.Add(1); int(i) <= len(left); i = taken.Add(1) {
				n.cfg.Host.Deactivate(ctx, left[i-1])
			}
			if int(ended.Add(1)) == workers {
				cancel()
			}
		})
	}
}
