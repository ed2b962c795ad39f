// Package sweep removes the records of nodes that are long dead from a fleet's
// lease bucket, so that they do not pile up: by one node at a time, a bounded
// number an hour, and never the lease of a node that may live.
//
// A lease that was not released is removed only after the store's stamps say that
// it is older than [wire.Retention], and this node has itself seen it unchanged for
// TTL + slack of its own clock: the rule by which it might take the dead node's
// cells over. So a store whose clock leaps by a month costs nobody a lease. Then it
// is overwritten by a tombstone, on the condition of the version seen, and only what
// is a tombstone is ever deleted: node ids never come back, so a delete that lands
// late finds nothing else.
package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// How often, and how much at once.
const (
	firstLook = 10 * time.Second // at most so long after the start, chosen at random
	everyDay  = 24 * time.Hour   // the next look, unless there is more to do
	turnDone  = 23 * time.Hour   // age at which a turn that was completed gives way
	turnOpen  = time.Hour        // and one that was not, or that left more to do
	most      = 1000             // records removed in a turn
	mostKeys  = 100_000          // records looked at in one
)

// Sweeper is one node's part in it.
type Sweeper struct {
	Leases bucket.Bucket
	Node   func() core.NodeID // its own id
	// Clock is the node's: monotonic, counting while the machine is suspended.
	Clock func() core.Time
	Wall  func() time.Time
	Log   *slog.Logger

	turns uint64 // taken by this node, so that no two turn records are equal
}

// Run looks whether it is this node's turn soon after the start, and then every
// day, until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	wait := time.Duration(rand.Int64N(int64(firstLook)))
	for sleep(ctx, wait) == nil {
		removed, more, err := s.Turn(ctx)
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("the clean-up of dead nodes' records failed, it will be tried again", "error", err)
		}
		if removed > 0 {
			s.Log.Info("removed the records of nodes long dead", "records", removed)
		}
		wait = everyDay
		if more {
			wait = turnOpen
		}
	}
}

// Turn removes what is due if no other node has had its turn lately. more says
// that there is more to remove, in an hour.
func (s *Sweeper) Turn(ctx context.Context) (removed int, more bool, err error) {
	turn, err := s.take(ctx)
	if err != nil || turn == "" {
		return 0, false, err
	}
	removed, more, err = s.sweep(ctx)
	if err == nil && !more {
		// Should this fail, the next turn comes sooner.
		_, err = s.Leases.Replace(ctx, wire.SweepKey, s.record(true), turn)
	}
	return removed, more, err
}

// turnRecord says who had the last turn. Whatever else is at its key counts as a
// turn that was not completed.
type turnRecord struct {
	Node core.NodeID `json:"node"`
	Turn uint64      `json:"turn"`
	Done bool        `json:"done"`
}

func (s *Sweeper) record(done bool) []byte {
	body, err := json.Marshal(turnRecord{s.Node(), s.turns, done})
	if err != nil {
		panic(err) // it is text and numbers
	}
	return body
}

// take returns the version of the turn's record if the turn is this node's. A
// write whose outcome is not known is not a turn: the next one comes in an hour.
func (s *Sweeper) take(ctx context.Context) (bucket.Version, error) {
	o, err := s.Leases.Get(ctx, wire.SweepKey)
	absent := errors.Is(err, bucket.ErrNotExist)
	if err != nil && !absent {
		return "", fmt.Errorf("read %s: %w", wire.SweepKey, err)
	}
	s.turns++
	var w bucket.Written
	if absent {
		w, err = s.Leases.Create(ctx, wire.SweepKey, s.record(false))
	} else {
		var last turnRecord
		due := turnOpen
		if json.Unmarshal(o.Body, &last) == nil && last.Done {
			due = turnDone
		}
		if age, known := s.age(o.Stamps); known && age < due {
			return "", nil
		}
		w, err = s.Leases.Replace(ctx, wire.SweepKey, s.record(false), o.Version)
	}
	if errors.Is(err, bucket.ErrConflict) {
		return "", nil // another node's
	}
	if err != nil {
		return "", fmt.Errorf("write %s: %w", wire.SweepKey, err)
	}
	return w.Version, nil
}

// age is how long ago the store wrote an object, by its own stamps.
func (s *Sweeper) age(st bucket.Stamps) (time.Duration, bool) {
	if st.Date.IsZero() || st.Modified.IsZero() {
		return 0, false
	}
	return st.Date.Sub(st.Modified) - s.Leases.Traits().Rounding, true
}

// sleep waits; an error says that ctx ended first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
