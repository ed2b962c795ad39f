package buckettest

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/tenure-go/tenure/bucket"
)

// Operation is what is counted: a kind, and the first part of the key
// ("cells", "nodes", "fleet", "probe").
type Operation struct {
	Kind  Kind
	Class string
}

// Counted is a bucket that counts the operations asked of it, also those that
// fail.
type Counted struct {
	bucket.Bucket
	counts *counts
}

type counts struct {
	mu sync.Mutex
	n  map[Operation]int
}

// Count wraps b.
func Count(b bucket.Bucket) *Counted {
	c := &counts{n: map[Operation]int{}}
	counting := Rule{When: Any, Do: func(ctx context.Context, call Call, do func(context.Context) error) error {
		c.add(call)
		return do(ctx)
	}}
	return &Counted{Bucket: Inject(b, counting), counts: c}
}

func (c *counts) add(call Call) {
	class, _, _ := strings.Cut(call.Key, "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[Operation{call.Kind, class}]++
}

// Counts returns the numbers so far, without those that are 0.
func (c *Counted) Counts() map[Operation]int {
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	return maps.Clone(c.counts.n)
}

// N returns how often this was asked for so far.
func (c *Counted) N(kind Kind, class string) int {
	return c.Counts()[Operation{kind, class}]
}

// Reset starts again at 0.
func (c *Counted) Reset() {
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	clear(c.counts.n)
}
