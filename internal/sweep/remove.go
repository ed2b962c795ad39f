package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// seen is a lease that is old enough to go, as it was first read.
type seen struct {
	rec     wire.LeaseRecord
	version bucket.Version
}

// sweep goes through all leases once. A tombstone that is old enough goes at
// once; another lease once it was seen unchanged.
func (s *Sweeper) sweep(ctx context.Context) (removed int, more bool, err error) {
	ttl, err := s.ttl(ctx)
	if err != nil {
		return 0, false, err
	}
	ids, err := s.list(ctx)
	if err != nil {
		return 0, false, err
	}
	var watched []seen
	for _, id := range ids {
		if removed+len(watched) == most {
			more = true
			break
		}
		x, due, err := s.look(ctx, id, ttl)
		switch {
		case err != nil:
			return removed, true, err
		case !due:
		case !x.rec.Released:
			watched = append(watched, x)
		default:
			if err := s.delete(ctx, id); err != nil {
				return removed, true, err
			}
			removed++
		}
	}
	n, err := s.bury(ctx, watched, ttl+ttl/20)
	return removed + n, more || err != nil, err
}

// ttl is the fleet's. A lease with a longer one is not the fleet's, and stays.
func (s *Sweeper) ttl(ctx context.Context) (time.Duration, error) {
	o, err := s.Leases.Get(ctx, wire.FleetKey)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", wire.FleetKey, err)
	}
	fleet, err := wire.DecodeFleet(o.Body)
	return time.Duration(fleet.LeaseTTL), err
}

// list returns the ids of all nodes but this one, from a random one on: a session
// that ends in the middle leaves another part to the next.
func (s *Sweeper) list(ctx context.Context) (ids []core.NodeID, err error) {
	for after, first := "", true; first || after != "" && len(ids) < mostKeys; first = false {
		page, err := s.Leases.List(ctx, wire.NodesPrefix, after, 0)
		if err != nil {
			return nil, fmt.Errorf("list the leases: %w", err)
		}
		for _, key := range page.Keys {
			if id, ok := wire.NodeOfKey(key); ok && id != s.Node() {
				ids = append(ids, id)
			}
		}
		after = page.Next
	}
	if len(ids) > 0 {
		from := rand.IntN(len(ids))
		ids = append(ids[from:len(ids):len(ids)], ids[:from]...)
	}
	return ids, nil
}

// look reads a lease and says whether it is due to go. A record that is not a
// lease is left alone.
func (s *Sweeper) look(ctx context.Context, id core.NodeID, ttl time.Duration) (x seen, due bool, err error) {
	o, err := s.Leases.Get(ctx, wire.LeaseKey(id))
	if errors.Is(err, bucket.ErrNotExist) || errors.Is(err, bucket.ErrTooLarge) {
		return x, false, nil
	}
	if err != nil {
		return x, false, fmt.Errorf("read lease of %s: %w", id, err)
	}
	rec, err := wire.DecodeLease(id, o.Body)
	if err != nil || time.Duration(rec.TTL) > ttl {
		return x, false, nil
	}
	keep := wire.Retention
	if rec.Released {
		keep = wire.RetentionReleased
	}
	return seen{rec, o.Version}, s.old(rec, o.Stamps, keep), nil
}

// old: the record was last written so long ago. Where the store says that its
// stamp is another boot's, and so of no known age, what is left is the wall clock
// of the node that wrote it, and this node's. Neither can cost a live node its
// lease: that is for bury to see.
func (s *Sweeper) old(rec wire.LeaseRecord, st bucket.Stamps, keep time.Duration) bool {
	if age, known := s.age(st); known {
		return age >= keep
	}
	return !st.Date.IsZero() && s.Wall().Sub(time.UnixMilli(rec.ExpiresMS)) >= keep
}

// bury removes the leases that do not change for limit by this node's clock.
func (s *Sweeper) bury(ctx context.Context, watched []seen, limit time.Duration) (removed int, err error) {
	if len(watched) == 0 {
		return 0, nil
	}
	from := s.Clock()
	for left := limit; left > 0; left = limit - time.Duration(s.Clock()-from) {
		if err := sleep(ctx, left); err != nil {
			return 0, err
		}
	}
	for _, x := range watched {
		gone, err := s.entomb(ctx, x)
		if err == nil && gone {
			err = s.delete(ctx, x.rec.Node)
		}
		if err != nil {
			return removed, err
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}

// entomb makes a tombstone of a lease that is still as it was seen. Should the
// node renew it in this very moment, the condition fails and it stays. A write
// whose outcome is not known may become a tombstone, which a later turn deletes.
func (s *Sweeper) entomb(ctx context.Context, x seen) (bool, error) {
	now, err := s.Leases.Get(ctx, wire.LeaseKey(x.rec.Node))
	if errors.Is(err, bucket.ErrNotExist) || err == nil && now.Version != x.version {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read lease of %s: %w", x.rec.Node, err)
	}
	tombstone := x.rec
	tombstone.Released = true
	tombstone.Seq++ // no two lease bodies are equal
	if tombstone.Check() != nil {
		return false, nil
	}
	_, err = s.Leases.Replace(ctx, wire.LeaseKey(x.rec.Node), wire.EncodeLease(tombstone), x.version)
	if errors.Is(err, bucket.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("make a tombstone of the lease of %s: %w", x.rec.Node, err)
	}
	return true, nil
}

// delete removes a tombstone.
func (s *Sweeper) delete(ctx context.Context, id core.NodeID) error {
	if err := s.Leases.Delete(ctx, wire.LeaseKey(id)); err != nil {
		return fmt.Errorf("delete the tombstone of %s: %w", id, err)
	}
	return nil
}
