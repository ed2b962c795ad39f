package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// prepare tests both buckets and adopts the fleet's settings. A bucket that
// cannot be reached is tried for ever; one that cannot be relied on, or another
// fleet's, is final.
func (n *Node) prepare() (time.Duration, error) {
	pause := time.Second / 4
	for {
		fleet, err := n.tryPrepare()
		if err == nil {
			n.seen.Lock()
			n.seen.fleet, n.seen.lastErr = fleet.ID, nil
			n.seen.Unlock()
			return time.Duration(fleet.LeaseTTL), nil
		}
		if n.ctx.Err() != nil {
			return 0, context.Cause(n.ctx)
		}
		if final(err) {
			return 0, err
		}
		n.seen.Lock()
		n.seen.lastErr = err
		n.seen.Unlock()
		n.logf(slog.LevelWarn, "not ready: the bucket did not pass its test, trying again", "error", err)
		if pause = min(2*pause, 5*time.Second); n.pause(pause) != nil {
			return 0, context.Cause(n.ctx)
		}
	}
}

// errFinal marks what trying again does not mend.
var errFinal = errors.New("cannot start")

func final(err error) bool { return errors.Is(err, bucket.ErrBroken) || errors.Is(err, errFinal) }

func (n *Node) tryPrepare() (wire.Fleet, error) {
	ctx, cancel := n.until(n.clock.Now() + core.Time(30*time.Second))
	defer cancel()
	for _, b := range []struct {
		name string
		b    bucket.Bucket
	}{{"bucket", n.cfg.Cells}, {"lease bucket", n.cfg.Leases}} {
		key, err := n.probeKey()
		if err != nil {
			return wire.Fleet{}, err
		}
		if err := bucket.Test(ctx, b.b, key, nil); err != nil {
			return wire.Fleet{}, fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return n.adopt(ctx)
}

func (n *Node) probeKey() (string, error) {
	id, err := wire.NewNodeID(n.cfg.Name, n.cfg.Random)
	return "probe/" + string(id), err
}

// adopt reads the fleet's settings, or fixes them for a new fleet. They are
// written to the lease bucket first: so a bucket that has them while the lease
// bucket has none was given the wrong lease bucket.
func (n *Node) adopt(ctx context.Context) (wire.Fleet, error) {
	cells, err := readFleet(ctx, n.cfg.Cells)
	inCells := err == nil
	if err != nil && !errors.Is(err, bucket.ErrNotExist) {
		return wire.Fleet{}, fmt.Errorf("bucket: %w", err)
	}
	leases, err := readFleet(ctx, n.cfg.Leases)
	switch {
	case err == nil:
	case !errors.Is(err, bucket.ErrNotExist):
		return wire.Fleet{}, fmt.Errorf("lease bucket: %w", err)
	case inCells:
		return wire.Fleet{}, fmt.Errorf("%w: the bucket belongs to fleet %s, but the lease bucket has no %s; is it the right one? Without the leases of that fleet its nodes would seem dead. Give the right lease bucket; for a new fleet, empty both", errFinal, cells.ID, wire.FleetKey)
	default:
		if leases, err = n.createFleet(ctx, n.cfg.Leases, wire.Fleet{}); err != nil {
			return wire.Fleet{}, fmt.Errorf("lease bucket: %w", err)
		}
	}
	if !inCells {
		if cells, err = n.completeFleet(ctx, leases); err != nil {
			return wire.Fleet{}, fmt.Errorf("bucket: %w", err)
		}
	}
	return cells, n.checkFleet(cells, leases)
}

// completeFleet writes the settings of the lease bucket to the bucket. That is
// right only while the fleet is being created, when no node has had a lease yet:
// later it means that the bucket was emptied or is another one, and every cell
// would begin again at epoch 1, beside the owners that still live.
func (n *Node) completeFleet(ctx context.Context, leases wire.Fleet) (wire.Fleet, error) {
	page, err := n.cfg.Leases.List(ctx, wire.NodesPrefix, "", 1)
	if err != nil {
		return wire.Fleet{}, fmt.Errorf("list the leases: %w", err)
	}
	if len(page.Keys) == 0 {
		return n.createFleet(ctx, n.cfg.Cells, leases)
	}
	cells, err := readFleet(ctx, n.cfg.Cells) // another node may just have completed it
	if errors.Is(err, bucket.ErrNotExist) {
		return wire.Fleet{}, fmt.Errorf("%w: the lease bucket belongs to fleet %s, which has had nodes, but the bucket has no %s: it was emptied, or is not that fleet's. Give the right bucket; for a new fleet, empty both", errFinal, leases.ID, wire.FleetKey)
	}
	return cells, err
}

// minTTL is the least that works with this lease bucket.
func (n *Node) minTTL() time.Duration { return max(MinTTL, n.cfg.Leases.Traits().MinTTL) }

func (n *Node) checkFleet(cells, leases wire.Fleet) error {
	switch ttl := time.Duration(cells.LeaseTTL); {
	case cells.ID != leases.ID:
		return fmt.Errorf("%w: the bucket belongs to fleet %s and the lease bucket to fleet %s; they must be one fleet's", errFinal, cells.ID, leases.ID)
	case n.cfg.TTL != 0 && n.cfg.TTL != ttl:
		return fmt.Errorf("%w: the lease TTL given is %s, but the fleet's is %s; leave it out to adopt the fleet's", errFinal, n.cfg.TTL, ttl)
	case ttl < n.minTTL() || ttl > MaxTTL:
		return fmt.Errorf("%w: the fleet's lease TTL is %s; in this lease bucket it must be between %s and %s", errFinal, ttl, n.minTTL(), MaxTTL)
	}
	return nil
}

func readFleet(ctx context.Context, b bucket.Bucket) (wire.Fleet, error) {
	obj, err := b.Get(ctx, wire.FleetKey)
	if err != nil {
		return wire.Fleet{}, fmt.Errorf("read %s: %w", wire.FleetKey, err)
	}
	f, err := wire.DecodeFleet(obj.Body)
	if err != nil {
		return wire.Fleet{}, fmt.Errorf("%w: read %s: %w", errFinal, wire.FleetKey, err)
	}
	return f, nil
}

// createFleet writes the settings, or a new fleet's if they are zero, unless
// another node was first; either way it returns what is there.
func (n *Node) createFleet(ctx context.Context, b bucket.Bucket, f wire.Fleet) (wire.Fleet, error) {
	if f == (wire.Fleet{}) {
		id, err := wire.NewToken(n.cfg.Random)
		if err != nil {
			return f, err
		}
		ttl := n.cfg.TTL
		def(&ttl, DefaultTTL)
		if ttl < n.minTTL() {
			return f, fmt.Errorf("%w: the lease TTL given is %s, but this lease bucket takes too few writes of one object for less than %s; give a longer one, or another lease bucket", errFinal, ttl, n.minTTL())
		}
		f = wire.Fleet{Version: wire.FleetVersion, ID: id, LeaseTTL: core.Time(ttl), CreatedMS: n.cfg.Wall().UnixMilli()}
	}
	if _, err := b.Create(ctx, wire.FleetKey, wire.EncodeFleet(f)); err != nil && !errors.Is(err, bucket.ErrConflict) {
		return f, fmt.Errorf("create %s: %w", wire.FleetKey, err)
	}
	return readFleet(ctx, b)
}
