// Package inspect reads what a fleet's buckets say, for people: nodes with a
// verdict, cells with their owners, and a diagnosis of everything that a fleet
// relies on. It claims nothing, and no verdict here is ground for a claim: they
// trust the store's stamps as they are.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// Fleet is a fleet's buckets, as somebody sees them who is no node.
type Fleet struct {
	Cells, Leases bucket.Bucket
}

// Verdict is what the bucket says of a node.
type Verdict string

// The verdicts.
const (
	Alive      Verdict = "alive"
	Released   Verdict = "released" // it said goodbye
	Expired    Verdict = "expired"  // by the store's stamps
	Unknown    Verdict = "unknown"  // the store's stamps cannot be compared
	Absent     Verdict = "absent"   // there is no record
	Unreadable Verdict = "unreadable"
)

// Node is one node lease. Its fields are those of the operator's GET /v1/nodes.
type Node struct {
	Node    string  `json:"node"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"`
	// AgeMS is the time since its last write, by the store's stamps; null if
	// they cannot be compared.
	AgeMS    *int64 `json:"age_ms"`
	TTLMS    int64  `json:"ttl_ms,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Name     string `json:"name,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Addr     string `json:"addr,omitempty"`
	Protocol int    `json:"peer_protocol,omitempty"`
	Cells    int64  `json:"cells"`
	Requests int64  `json:"requests"`
	Draining bool   `json:"draining,omitempty"`
	// Removal: it has been dead for so long that the fleet will remove it.
	Removal bool `json:"due_for_removal,omitempty"`

	Key string `json:"-"` // of its TLS
}

// Contact is how to reach it.
func (n Node) Contact() core.Contact {
	return core.Contact{Addr: n.Addr, Key: n.Key, Protocol: n.Protocol}
}

// Nodes is a page of nodes. Next, if there is one, is the "after" of the next.
type Nodes struct {
	Nodes []Node `json:"nodes"`
	Next  string `json:"next,omitempty"`
}

// ErrNoFleet says that there is nothing to look at.
var ErrNoFleet = errors.New("there is no fleet in this bucket: " + wire.FleetKey + " does not exist. Is it the right bucket, and prefix? The first node makes it")

// TTL is the fleet's lease TTL.
func (f Fleet) TTL(ctx context.Context) (time.Duration, error) {
	fleet, _, err := readFleet(ctx, f.Leases)
	if errors.Is(err, bucket.ErrNotExist) {
		return 0, ErrNoFleet
	}
	return time.Duration(fleet.LeaseTTL), err
}

func readFleet(ctx context.Context, b bucket.Bucket) (wire.Fleet, bucket.Stamps, error) {
	o, err := b.Get(ctx, wire.FleetKey)
	if err != nil {
		return wire.Fleet{}, o.Stamps, fmt.Errorf("read %s: %w", wire.FleetKey, err)
	}
	fleet, err := wire.DecodeFleet(o.Body)
	return fleet, o.Stamps, err
}

// Nodes reads up to limit leases, in the order of their ids, of nodes after the
// given one.
func (f Fleet) Nodes(ctx context.Context, after string, limit int) (Nodes, error) {
	ttl, err := f.TTL(ctx)
	if err != nil {
		return Nodes{}, err
	}
	if after != "" {
		after = wire.LeaseKey(core.NodeID(after))
	}
	ids, next, err := page(ctx, f.Leases, wire.NodesPrefix, after, limit, wire.NodeOfKey)
	if err != nil {
		return Nodes{}, fmt.Errorf("list nodes: %w", err)
	}
	nodes := Nodes{Nodes: make([]Node, len(ids)), Next: string(next)}
	each(len(ids), func(i int) { nodes.Nodes[i] = f.node(ctx, ids[i], ttl) })
	return nodes, ctx.Err()
}

// page lists the names of one page, skipping keys that have none. There is a next
// one if more keys follow.
func page[T ~string](ctx context.Context, b bucket.Bucket, prefix, after string, limit int, name func(string) (T, bool)) (names []T, next T, err error) {
	for {
		l, err := b.List(ctx, prefix, after, limit)
		if err != nil {
			return nil, "", err
		}
		for _, key := range l.Keys {
			if n, ok := name(key); ok {
				names = append(names, n)
			}
		}
		switch {
		case l.Next == "":
			return names, "", nil
		case len(names) > 0:
			return names, names[len(names)-1], nil
		}
		after = l.Next // nothing but strange keys
	}
}

// each runs f for 0 to n-1, some at a time.
func each(n int, f func(i int)) {
	turns := make(chan struct{}, 16)
	var work sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			f(i)
		})
	}
	work.Wait()
}

// node reads one lease.
func (f Fleet) node(ctx context.Context, id core.NodeID, ttl time.Duration) Node {
	o, err := f.Leases.Get(ctx, wire.LeaseKey(id))
	if errors.Is(err, bucket.ErrNotExist) {
		return Node{Node: string(id), Verdict: Absent, Reason: "there is no record of it (any more)"}
	}
	var rec wire.LeaseRecord
	if err == nil {
		rec, err = wire.DecodeLease(id, o.Body)
	}
	if err != nil {
		return Node{Node: string(id), Verdict: Unreadable, Reason: err.Error()}
	}
	n := Node{
		Node: string(id), TTLMS: time.Duration(rec.TTL).Milliseconds(), Seq: rec.Seq,
		Name: rec.Name, Zone: rec.Zone, Addr: rec.Addr, Protocol: rec.Protocol, Key: rec.Key,
		Cells: rec.Load.Cells, Requests: rec.Load.Requests, Draining: rec.Load.Draining,
	}
	n.judge(rec, o.Stamps, max(ttl, time.Duration(rec.TTL)), f.Leases.Traits().Rounding)
	return n
}

// judge says what the stamps say, as they are.
func (n *Node) judge(rec wire.LeaseRecord, s bucket.Stamps, ttl, rounding time.Duration) {
	age, known := ageOf(s, rounding)
	if known {
		ms := age.Milliseconds()
		n.AgeMS = &ms
		keep := wire.Retention
		if rec.Released {
			keep = wire.RetentionReleased
		}
		n.Removal = age >= keep
	}
	ago := age.Round(100 * time.Millisecond).String()
	if age >= time.Minute {
		ago = age.Round(time.Second).String()
	}
	switch {
	case rec.Released && known:
		n.Verdict, n.Reason = Released, "it drained "+ago+" ago"
	case rec.Released:
		n.Verdict, n.Reason = Released, "it drained"
	case !known:
		n.Verdict, n.Reason = Unknown, "the store's times of it cannot be compared; on SQLite: it was written before this machine was booted, or in another container"
	case age >= ttl+ttl/20:
		n.Verdict, n.Reason = Expired, fmt.Sprintf("not renewed for %s; the TTL is %s", ago, ttl)
	default:
		n.Verdict, n.Reason = Alive, fmt.Sprintf("renewed %s ago; the TTL is %s", ago, ttl)
	}
	if n.Removal {
		n.Reason += "; the fleet will remove it"
	}
}

// ageOf is how long ago the store wrote an object, at the least.
func ageOf(s bucket.Stamps, rounding time.Duration) (time.Duration, bool) {
	if s.Date.IsZero() || s.Modified.IsZero() {
		return 0, false
	}
	return max(0, s.Date.Sub(s.Modified)-rounding), true
}
