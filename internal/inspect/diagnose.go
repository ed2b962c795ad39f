package inspect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// Check is one thing that was looked at.
type Check struct {
	Part string `json:"part"` // bucket, lease-bucket, fleet, leases, peers
	Name string `json:"name"` // of the step, or the node
	OK   bool   `json:"ok"`
	MS   int64  `json:"ms"` // how long it took
	// Detail is what should be so, or what was found.
	Detail string `json:"detail"`
	Answer string `json:"answer,omitempty"` // of the store, or the peer, where it failed
	Advice string `json:"advice,omitempty"`
}

// Diagnosis is what to look at.
type Diagnosis struct {
	// Cells and Leases are clients that do not try again by themselves: what is
	// wrong once in a while is to be seen.
	Cells, Leases bucket.Bucket
	OneBucket     bool // they are the same
	ReadOnly      bool // write nothing
	// Probe asks a peer for its id.
	Probe func(ctx context.Context, node core.NodeID, c core.Contact) error
	Wall  func() time.Time // this machine's clock, to say how far the store's is off
}

// patience is for each part that talks to a store.
const patience = 30 * time.Second

// Run looks at everything, also after a failure, and reports each check as it is
// made. It returns how many failed.
func (d Diagnosis) Run(ctx context.Context, report func(Check)) (failed int) {
	r := &reporter{Diagnosis: d, report: report}
	r.bucket(ctx, "bucket", d.Cells, wire.CellsPrefix)
	if !d.OneBucket {
		r.bucket(ctx, "lease-bucket", d.Leases, wire.NodesPrefix)
	}
	ttl := r.fleet(ctx)
	r.peers(ctx, r.leases(ctx, ttl))
	return r.failed
}

type reporter struct {
	Diagnosis
	report func(Check)
	failed int
}

func (r *reporter) add(c Check, from time.Time) {
	c.MS = time.Since(from).Milliseconds()
	if !c.OK {
		r.failed++
	}
	r.report(c)
}

// bucket is the start-up test of a node, or the part of it that writes nothing.
func (r *reporter) bucket(ctx context.Context, part string, b bucket.Bucket, prefix string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key, from := "probe/diagnose-"+rand.Text(), time.Now()
	if r.ReadOnly {
		r.readOnly(ctx, part, b, key, prefix)
		return
	}
	// The error is that of the last step.
	_ = bucket.Test(ctx, b, key, func(s bucket.Step) {
		c := Check{Part: part, Name: s.Name, OK: s.Err == nil, Detail: s.Property}
		var e *bucket.TestError
		if errors.As(s.Err, &e) {
			c.Answer, c.Advice = e.Answer.Error(), advise(e.Answer, e.Advice)
			if e.Broken && !errors.Is(e.Answer, bucket.ErrRefused) {
				c.Detail = "BROKEN, it must not be used: " + s.Property
			}
		}
		r.add(c, from)
		from = time.Now()
	})
}

func (r *reporter) readOnly(ctx context.Context, part string, b bucket.Bucket, key, prefix string) {
	from := time.Now()
	_, err := b.Get(ctx, key)
	if err == nil {
		err = errors.New("an object at a key that was never used")
	} else if errors.Is(err, bucket.ErrNotExist) {
		err = nil
	}
	r.add(checked(part, "absent", "an absent object must read as absent", err), from)
	from = time.Now()
	_, err = b.List(ctx, prefix, "", 1)
	r.add(checked(part, "list", "objects can be listed", err), from)
}

func checked(part, name, detail string, err error) Check {
	c := Check{Part: part, Name: name, Detail: detail, OK: err == nil}
	if err != nil {
		c.Answer, c.Advice = err.Error(), advise(err, "")
	}
	return c
}

// advise says what to do where the start-up test does not.
func advise(err error, advice string) string {
	switch {
	case advice != "":
		return advice
	case errors.Is(err, bucket.ErrThrottled):
		return "The store asks to slow down: try again later, and see what else uses it"
	case errors.Is(err, bucket.ErrRefused):
		return "Check the name of the bucket, the credentials and the region, and that reading, writing, deleting and listing objects is permitted"
	case errors.Is(err, context.DeadlineExceeded):
		return "It did not answer in time: check the network, a proxy or firewall between, and the load of the store"
	}
	return "Check that the endpoint is right and reachable from here, and that the bucket exists"
}

// fleet reads the fleet's own record; it returns its TTL, or 0.
func (r *reporter) fleet(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	from := time.Now()
	leases, stamps, err := readFleet(ctx, r.Leases)
	cells, _, err2 := readFleet(ctx, r.Cells)
	absent, absent2 := errors.Is(err, bucket.ErrNotExist), errors.Is(err2, bucket.ErrNotExist)
	c := Check{Part: "fleet", Name: wire.FleetKey}
	switch {
	case absent && absent2:
		c.OK, c.Detail = true, "no fleet yet: the first node makes it"
	case absent:
		c.Detail, c.Answer, c.Advice = "both buckets must be one fleet's", "the lease bucket has no "+wire.FleetKey, "Is it the right lease bucket?"
	case absent2 && err == nil:
		c.Detail, c.Answer, c.Advice = "both buckets must be one fleet's", "the bucket has no "+wire.FleetKey, "Is it the right bucket? If it was emptied, empty the lease bucket too, while no node runs"
	case err != nil || err2 != nil:
		c = checked(c.Part, c.Name, "the fleet's record must be readable", errors.Join(err, err2))
	case cells.ID != leases.ID:
		c.Detail, c.Answer = "both buckets must be one fleet's", fmt.Sprintf("the bucket is fleet %s's, the lease bucket fleet %s's", cells.ID, leases.ID)
		c.Advice = "Give the bucket and the lease bucket of the same fleet"
	default:
		c.OK, c.Detail = true, fmt.Sprintf("fleet %s, lease TTL %s%s", cells.ID, time.Duration(cells.LeaseTTL), r.offset(stamps))
	}
	r.add(c, from)
	return time.Duration(leases.LeaseTTL)
}

// offset says how far the store's clock is from this machine's, where it has one
// of its own. Nothing depends on it.
func (r *reporter) offset(s bucket.Stamps) string {
	if r.Leases.Traits().Rounding == 0 || s.Date.IsZero() {
		return ""
	}
	d := s.Date.Sub(r.Wall()).Round(time.Second)
	if d.Abs() <= 2*time.Second { // rounding, and a cached Date
		return ", the store's clock agrees with this machine's"
	}
	return fmt.Sprintf(", the store's clock is %s from this machine's (nothing is decided by that, but signatures may be refused)", d)
}
