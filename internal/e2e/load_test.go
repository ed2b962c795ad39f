//go:build unix

package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// load is a client of every cell, that asks again and again.
type load struct {
	stop func()
	work sync.WaitGroup

	lock    sync.Mutex
	answers history
	stall   time.Duration // longest that this very process did not get to run
}

// pace is the time from one request for a cell to the next.
const pace = 120 * time.Millisecond

// startLoad keeps requesting every cell through nodes chosen at random, GET and
// POST, until stopped. Each cell has a client of its own: one that waits does
// not hold up the others.
func startLoad(t *testing.T, cells, via []string) *load { return startLoadAt(t, cells, via, pace) }

func startLoadAt(t *testing.T, cells, via []string, pace time.Duration) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{}
	l.stop = sync.OnceFunc(func() {
		cancel()
		l.work.Wait()
	})
	t.Cleanup(l.stop)
	for _, cell := range cells {
		l.work.Go(func() { l.ask(ctx, cell, via, pace) })
	}
	l.work.Go(func() { l.watchStalls(ctx) })
	return l
}

func (l *load) ask(ctx context.Context, cell string, via []string, pace time.Duration) {
	c := newClient(patience)
	defer c.close()
	until(time.Now().Add(rand.N(pace))) // not all at once
	tick := time.NewTicker(pace*3/4 + rand.N(pace/2))
	defer tick.Stop()
	for {
		method := []string{"GET", "POST"}[rand.N(2)]
		// Not ctx: a request that was sent gets its answer.
		l.add(c.do(context.Background(), method, via[rand.N(len(via))], cell, ""))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // also if it ticked
			return
		}
	}
}

// watchStalls measures how late this process is, to tell a slow machine from a
// slow fleet.
func (l *load) watchStalls(ctx context.Context) {
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
			now := time.Now()
			l.lock.Lock()
			l.stall = max(l.stall, now.Sub(last)-every)
			l.lock.Unlock()
			last = now
		case <-ctx.Done():
			return
		}
	}
}

func (l *load) worstStall() time.Duration {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.stall
}

func (l *load) add(a answer) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.answers = append(l.answers, a)
}

// finish stops the load and returns every answer.
func (l *load) finish() history {
	l.stop()
	return l.answers
}

// history is a copy of the answers so far.
func (l *load) history() history {
	l.lock.Lock()
	defer l.lock.Unlock()
	return slices.Clone(l.answers)
}

// awaitServed waits until each of the cells was served at an epoch. It reports
// whether that was so in time, and waits no longer than that.
func (l *load) awaitServed(cells []string, epoch uint64, deadline time.Time) bool {
	return poll(time.Until(deadline), func() bool {
		l.lock.Lock()
		defer l.lock.Unlock()
		served := l.answers.firstServed(epoch)
		for _, cell := range cells {
			if _, ok := served[cell]; !ok {
				return false
			}
		}
		return true
	})
}

// mustServe wants each cell served at the epoch within the limit of an event,
// and says when that was.
func (l *load) mustServe(t *testing.T, cells []string, epoch uint64, event time.Time, limit time.Duration) {
	t.Helper()
	const grace = 5 * time.Second // to learn by how much it is late
	l.awaitServed(cells, epoch, event.Add(limit+grace))
	h := l.history()
	served := h.firstServed(epoch)
	var after []time.Duration
	for _, cell := range cells {
		at, ok := served[cell]
		if d := at.Sub(event); ok && d <= limit {
			after = append(after, d)
			continue
		}
		t.Errorf("cell %s was not served at epoch %d within %v of the event; its answers since:\n%s",
			cell, epoch, limit, h.of(cell).since(event).story(event))
	}
	t.Logf("served again after: %s (limit %v; this process was late by up to %v)",
		span(after), limit, l.worstStall().Round(time.Millisecond))
}
