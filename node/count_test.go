package node_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// spent says what a member asked of its buckets since the last reset.
func (m *member) spent() string {
	s := fmt.Sprintf("cells: get %d create %d replace %d; leases: get %d",
		m.cells.N(buckettest.Get, "cells"), m.cells.N(buckettest.Create, "cells"), m.cells.N(buckettest.Replace, "cells"),
		m.leases.N(buckettest.Get, "nodes"))
	m.resetCounts()
	return s
}

func expectSpent(t *testing.T, m *member, what, want string) {
	t.Helper()
	if got := m.spent(); got != want {
		t.Errorf("%s cost %q, want %q", what, got, want)
	}
}

const nothing = "cells: get 0 create 0 replace 0; leases: get 0"

func TestCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.start("a"), f.start("b")
		a.resetCounts()
		b.resetCounts()

		a.mustRun(t, "x", 1)
		expectSpent(t, a, "the first claim", "cells: get 1 create 1 replace 0; leases: get 0")
		a.mustRun(t, "x", 1)
		expectSpent(t, a, "a warm request", nothing)

		b.mustForward(t, "x", a)
		expectSpent(t, b, "finding the owner", "cells: get 1 create 0 replace 0; leases: get 0")
		b.mustForward(t, "x", a)
		expectSpent(t, b, "a warm forward", nothing)

		a.Evict("x")
		synctest.Wait()
		expectSpent(t, a, "a release", "cells: get 0 create 0 replace 1; leases: get 0")
		a.mustRun(t, "x", 2)
		expectSpent(t, a, "claiming it again", "cells: get 1 create 0 replace 1; leases: get 0")
	})
}

// A claim whose answer is lost is looked for, once, and never sent again: it costs
// get, put, get, and the cell is at epoch 1.
func TestLostAnswerCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFleet(t).start("a")
		a.resetCounts()
		a.faults[0].Set(buckettest.Rule{
			When: buckettest.And(buckettest.Is(buckettest.Create), buckettest.First(1)), Do: buckettest.LoseAnswer(nil),
		})
		a.mustRun(t, "x", 1)
		expectSpent(t, a, "a claim whose answer is lost", "cells: get 2 create 1 replace 0; leases: get 0")
	})
}

func TestTakeoverCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a")
		for i := range 50 {
			a.mustRun(t, cellName(i), 1)
		}
		b := f.start("b")
		a.cut()
		<-a.Done()
		<-time.After(20 * time.Second) // old enough at the first look, by the store's stamps
		b.resetCounts()
		b.mustRun(t, cellName(0), 2)
		expectSpent(t, b, "the first takeover", "cells: get 1 create 0 replace 1; leases: get 1")
		for i := 1; i < 50; i++ {
			b.mustRun(t, cellName(i), 2)
		}
		expectSpent(t, b, "49 more from the same node", "cells: get 49 create 0 replace 49; leases: get 0")
	})
}

func cellName(i int) core.CellName { return core.CellName(fmt.Sprintf("cell-%d", i)) }

// B1: a node costs one lease write per TTL/3, however many cells it owns.
func TestIdleCosts(t *testing.T) {
	for _, cells := range []int{0, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			a := newFleet(t).start("a")
			for i := range cells {
				a.mustRun(t, cellName(i), 1)
			}
			<-time.After(10 * time.Second)
			a.resetCounts()
			<-time.After(100 * time.Second)
			synctest.Wait()
			if n := a.lease.N(buckettest.Replace, "nodes"); n < 29 || n > 31 {
				t.Errorf("%d cells: %d lease writes in 10 TTLs, want 30", cells, n)
			}
			all := 0
			for _, c := range []*buckettest.Counted{a.cells, a.lease, a.leases} {
				for _, n := range c.Counts() {
					all += n
				}
			}
			if n := a.lease.N(buckettest.Replace, "nodes"); all != n {
				t.Errorf("%d cells: %d operations beside %d lease writes", cells, all-n, n)
			}
		})
	}
}

// L4: half a TTL of lease traffic that hangs, fails or is contended costs no
// node its life, whenever it begins.
func TestLeaseTrafficFailsForHalfATTL(t *testing.T) {
	for name, fault := range map[string]buckettest.Fault{
		"hangs": buckettest.Hang(), "fails": buckettest.FailBefore(nil), "contended": buckettest.Contend(),
		"applied, answer lost": buckettest.LoseAnswer(nil), "refused": buckettest.FailBefore(bucket.ErrNotApplied),
	} {
		for begin := time.Duration(0); begin < 4*time.Second; begin += 250 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				a := newFleet(t).start("a")
				<-time.After(10*time.Second + begin)
				lease := a.faults[1]
				lease.Set(buckettest.Rule{When: buckettest.Any, Do: fault})
				<-time.After(5 * time.Second)
				lease.Set()
				<-time.After(10 * time.Second)
				a.mustRun(t, "x", 1)
				if a.Err() != nil {
					t.Fatalf("%s from %s on: %v", name, begin, a.Err())
				}
			})
		}
	}
}

// Ownership traffic that hangs does not delay a renewal.
func TestRenewalsHaveTheirOwnLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFleet(t).start("a")
		a.faults[0].Set(buckettest.Rule{When: buckettest.Any, Do: buckettest.Hang()})
		for i := range 500 {
			go a.ask(cellName(i))
		}
		a.resetCounts()
		<-time.After(60 * time.Second)
		if n := a.lease.N(buckettest.Replace, "nodes"); n < 17 || n > 19 {
			t.Errorf("%d renewals in 6 TTLs", n)
		}
		if got := a.Status().Margin; got < 6*time.Second {
			t.Errorf("the last renewal left a margin of %s", got)
		}
	})
}

func TestFenceReasons(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(f *fleet, a *member)
		want string
		took time.Duration // after the change, at the most
	}{
		"missing": {func(f *fleet, a *member) {
			if err := f.store.Open().Delete(t.Context(), "nodes/"+string(a.ID())+".json"); err != nil {
				t.Error(err)
			}
		}, "lease record missing", 4 * time.Second},
		"expired": {func(_ *fleet, a *member) { a.cut() }, "authority expired", 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			a := f.start("a")
			a.mustRun(t, "x", 1)
			from := time.Now()
			c.do(f, a)
			<-a.Done()
			if err := a.Err(); !errors.Is(err, node.ErrFenced) || err.Error() != "fenced: "+c.want {
				t.Errorf("%s: ended with %v", name, err)
			}
			if took := time.Since(from); took > c.took {
				t.Errorf("%s: fenced after %s", name, took)
			}
		})
	}
}

// countedClock counts how often its timers are set.
type countedClock struct {
	testClock
	sets *atomic.Int32
}

type countedTimer struct {
	node.Timer
	sets *atomic.Int32
}

func (c countedClock) NewTimer(fire func()) node.Timer {
	return countedTimer{c.testClock.NewTimer(fire), c.sets}
}

func (t countedTimer) Set(at core.Time) {
	t.sets.Add(1)
	t.Timer.Set(at)
}

// To set the timer is a system call, which a warm request does not pay; what is
// due is done on time all the same.
func TestTimerCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := countedClock{sets: new(atomic.Int32)}
		a := newFleet(t).start("a", func(c *node.Config) { c.Clock = clock })
		ask := func() *node.Call {
			c := a.Begin(t.Context(), node.Request{Cell: "x", Timeout: time.Second})
			if e, ok := c.Next(t.Context()).(core.Dispatch); !ok {
				t.Fatalf("got %#v, want a Dispatch", e)
			}
			return c
		}
		ask().Done()
		clock.sets.Store(0)
		for range 100 {
			<-time.After(time.Millisecond)
			ask().Done()
		}
		if n := clock.sets.Load(); n > 2 {
			t.Errorf("100 warm requests set the timer %d times", n)
		}
		late, from := ask(), time.Now()
		defer late.Done()
		<-late.Context().Done()
		if after := time.Since(from); after != time.Second {
			t.Errorf("an answer that should have begun within 1s was given up after %v", after)
		}
	})
}
