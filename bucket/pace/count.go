package pace

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/tenure-go/tenure/bucket"
)

// Operation is what is counted apart.
type Operation struct {
	Kind    string // get, create, replace, delete, list
	Class   string // of the key
	Outcome string // see Outcome
}

// Count is how often, and how long all of them took together.
type Count struct {
	N    uint64
	Took time.Duration
}

// Counted is one line of the counts.
type Counted struct {
	Operation
	Count
}

// Stats is what happened so far.
type Stats struct {
	// Counts are of requests sent, each try by itself, in a fixed order.
	Counts    []Counted
	Retries   uint64        // reads and lists sent again
	Unretried uint64        // that would have been, had the budget allowed it
	Held      uint64        // requests that waited because the store had throttled
	Refused   uint64        // requests that were not sent for it: no time was left
	Gap       time.Duration // between requests now; 0: nothing is held back
}

// Outcome names what an operation's error says, as the counts do.
func Outcome(kind string, err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, bucket.ErrNotExist):
		return "absent"
	case errors.Is(err, bucket.ErrConflict):
		return "rejected"
	case errors.Is(err, bucket.ErrContended):
		return "contended"
	case errors.Is(err, bucket.ErrThrottled):
		return "throttled"
	case errors.Is(err, bucket.ErrRefused):
		return "refused"
	case errors.Is(err, bucket.ErrBroken):
		return "broken"
	case errors.Is(err, bucket.ErrNotApplied):
		return "not-applied"
	case kind == "get" || kind == "list":
		return "failed"
	}
	return "ambiguous"
}

func (p *Pace) count(kind, key string, err error, took time.Duration) {
	op := Operation{Kind: kind, Class: p.o.Class(key), Outcome: Outcome(kind, err)}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts[op]
	c.N++
	c.Took += took
	p.counts[op] = c
}

// Stats may be called at any time.
func (p *Pace) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(time.Now())
	s := p.stats
	s.Gap = p.gap
	for op, c := range p.counts {
		s.Counts = append(s.Counts, Counted{op, c})
	}
	slices.SortFunc(s.Counts, func(a, b Counted) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Outcome, b.Outcome))
	})
	return s
}
