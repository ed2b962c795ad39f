// Package pace keeps a fleet from making a store's trouble worse. It wraps the
// clients of one bucket: reads and lists that fail are tried again, after random
// pauses and within a budget; that the store asked to slow down is remembered,
// and what follows is held back for all of them together; and everything that is
// sent is counted.
//
// A write is sent once, whatever comes of it, and a node's own lease is never held
// back: its writes are few, and its life depends on them.
package pace

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenure-go/tenure/bucket"
)

// How requests are held back. After a throttle they leave one by one, a gap
// apart. It doubles with each throttle that it did not prevent and halves with
// each calm without one, so that a store that goes on throttling is asked about
// once a calm, and one that stopped is at full speed again within eight.
const (
	firstGap = 20 * time.Millisecond
	mostGap  = time.Second
	leastGap = 5 * time.Millisecond // below it nothing is held back
	calm     = time.Second / 2
	mostWait = time.Minute // of a Retry-After that is obeyed
)

// The budget of retries: each costs one, each read or list that succeeds earns a
// part of one. So a store that fails everything is sent little more than it was
// asked for.
const (
	mostRetries = 50
	earned      = 0.2
)

// Options configure a Pace.
type Options struct {
	// Class names what a key belongs to, in the counts.
	Class func(key string) string
	// Random is in [0, 1); math/rand's by default. It is never called
	// concurrently.
	Random func() float64
}

// Pace is what the clients of one bucket know together.
type Pace struct {
	o Options

	mu      sync.Mutex
	gap     time.Duration // between requests; 0: they are not held back
	next    time.Time     // nothing leaves before it
	doubled time.Time     // when the gap grew: answers to older requests say nothing new
	calmed  time.Time     // since when the gap has not changed
	budget  float64       // of retries
	counts  map[Operation]Count
	stats   Stats // but for the counts
}

// New makes the Pace of a bucket.
func New(o Options) *Pace {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Pace{o: o, budget: mostRetries, counts: map[Operation]Count{}}
}

// Bucket wraps a client. It is a [bucket.Waiter].
func (p *Pace) Bucket(b bucket.Bucket) bucket.Bucket { return &paced{lane{b, p}} }

// Lane wraps the client that carries nothing but a node's own lease: it is counted,
// and others heed what the store answers to it, but nothing is held back or tried
// again. The core does that, by the authority that is left.
func (p *Pace) Lane(b bucket.Bucket) bucket.Bucket { return &lane{b, p} }

// turn takes the next place in the queue, and says how long to wait for it. False:
// it would come after the deadline, and none was taken.
func (p *Pace) turn(deadline time.Time, bounded bool) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.settle(now)
	wait := max(0, p.next.Sub(now))
	if bounded && wait > 0 && !now.Add(wait).Before(deadline) {
		p.stats.Refused++
		return wait, false
	}
	if wait > 0 {
		p.stats.Held++
	}
	if p.gap > 0 {
		p.next = now.Add(wait + p.jitter(p.gap))
	}
	return wait, true
}

// jitter is half of d to one and a half.
func (p *Pace) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(p.o.Random()*float64(d))
}

// settle lets the gap shrink for the time that was calm.
func (p *Pace) settle(now time.Time) {
	for p.gap > 0 && now.Sub(p.calmed) >= calm {
		p.calmed = p.calmed.Add(calm)
		if p.gap /= 2; p.gap < leastGap {
			p.gap = 0
		}
	}
}

// note learns from the answer to a request that was sent at that time.
func (p *Pace) note(sent time.Time, err error) {
	wait := bucket.RetryAfter(err)
	if wait == 0 && !errors.Is(err, bucket.ErrThrottled) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.settle(now)
	// Many requests that were under way are throttled together, for one reason.
	if p.gap == 0 || !sent.Before(p.doubled) {
		p.gap = min(max(2*p.gap, firstGap), mostGap)
		p.doubled = now
	}
	p.calmed = now
	// Nodes that were told the same must not come back together.
	if at := now.Add(min(wait, mostWait) + time.Duration(p.o.Random()*float64(p.gap))); at.After(p.next) {
		p.next = at
	}
}

// random is a random part of d.
func (p *Pace) random(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.o.Random() * float64(d))
}

// retry takes one retry out of the budget, if there is one.
func (p *Pace) retry() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budget < 1 {
		p.stats.Unretried++
		return false
	}
	p.budget--
	p.stats.Retries++
	return true
}

func (p *Pace) earn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = min(p.budget+earned, mostRetries)
}
