package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
)

// Status is what a node can say of itself without asking the core.
type Status struct {
	// Margin is the authority that was left when the last renewal was
	// applied.
	Margin time.Duration
	// StoreOffset is the store's clock less this node's wall clock at the last
	// renewal, within its round trip and the store's rounding; valid if
	// HasStoreOffset. For display only.
	StoreOffset    time.Duration
	HasStoreOffset bool
	// LeaseErr is the last failure of a lease operation, nil after one that
	// succeeded.
	LeaseErr error
	// Fleet is the fleet's id.
	Fleet string
	// Authority is what is left of it; negative once it is gone.
	Authority time.Duration
}

// Status may be called at any time.
func (n *Node) Status() Status {
	now := n.clock.Now()
	n.seen.Lock()
	defer n.seen.Unlock()
	s := n.seen.status
	s.Fleet, s.LeaseErr = n.seen.fleet, n.seen.lastErr
	if n.seen.deadline != 0 && n.seen.deadline != never {
		s.Authority = time.Duration(n.seen.deadline - now)
	}
	return s
}

// noteRenewal keeps what is shown of a lease write, and logs the first failure
// in a row and the recovery.
func (n *Node) noteRenewal(o core.WriteOutcome, err error, w bucket.Written, sent, authority core.Time) {
	now := n.clock.Now()
	n.seen.Lock()
	defer n.seen.Unlock()
	before := n.seen.lastErr
	n.seen.lastErr = err
	if err != nil {
		if before == nil && n.ctx.Err() == nil {
			n.logf(slog.LevelWarn, "a lease write failed, trying again while authority lasts", "error", err,
				"authority_left", time.Duration(authority-now))
		}
		return
	}
	if before != nil {
		n.logf(slog.LevelInfo, "lease writes succeed again")
	}
	if o == core.Applied && authority != never {
		n.seen.status.Margin = time.Duration(authority - now)
	}
	n.seen.status.HasStoreOffset = !w.Date.IsZero() && n.cfg.Leases.Traits().Rounding > 0
	if n.seen.status.HasStoreOffset {
		n.seen.status.StoreOffset = w.Date.Sub(n.cfg.Wall())
	}
}

// noteRead logs a read that brought nothing that can be used.
func (n *Node) noteRead(what string, o core.ReadOutcome, err error) {
	switch {
	case n.ctx.Err() != nil:
	case o == core.BadRecord:
		n.logf(slog.LevelError, "a record in the bucket is not ours; it is left alone", "record", what, "error", err)
	case o == core.ReadFailed:
		n.logf(slog.LevelWarn, "a record could not be read", "record", what, "error", err)
	}
}

func (n *Node) logTakeover(e core.WriteOwner) {
	ev := e.Evidence
	args := []any{"cell", e.Cell, "epoch", e.Owner.Epoch, "from", ev.Node, "rule", ev.Rule, "version", ev.Version,
		"took", time.Duration(ev.Took), "watched", time.Duration(ev.Watched)}
	if ev.Stamps.HasDate && ev.Stamps.HasModified {
		args = append(args, "store_age", time.Duration(ev.Stamps.Date-ev.Stamps.Modified))
	}
	n.logf(slog.LevelInfo, "taking over", args...)
}

// logf queues a line; the log's own slowness must not delay a decision.
func (n *Node) logf(level slog.Level, msg string, args ...any) {
	if n.logs == nil {
		return
	}
	if !n.queueLog(func() { n.cfg.Log.Log(context.Background(), level, msg, args...) }) {
		n.lost.Add(1)
	}
}

// writeLogs is the one goroutine that writes lines.
func (n *Node) writeLogs() {
	for f := n.nextLog(); f != nil; f = n.nextLog() {
		f()
		if k := n.lost.Swap(0); k > 0 {
			n.cfg.Log.Warn("log lines were dropped: too many at once", "lines", k)
		}
	}
}
