package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// leapClock leaps an hour after so many more readings, as if the process had
// been stopped right there; 0: never.
type leapClock struct {
	testClock
	left *atomic.Int64
	leap *atomic.Int64
}

func newLeapClock() leapClock { return leapClock{left: new(atomic.Int64), leap: new(atomic.Int64)} }

func (c leapClock) Now() core.Time {
	now := c.testClock.Now() + core.Time(c.leap.Load())
	if c.left.Load() > 0 && c.left.Add(-1) == 0 {
		c.leap.Store(int64(time.Hour))
	}
	return now
}

// Authority is compared with the clock after the decision, as the last act before
// a request is run and before its answer is let out (S3, S7).
func TestStoppedBeforeTheAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, act := range []string{"dispatch", "answer"} {
			clock := newLeapClock()
			a := newFleet(t).start("a", func(c *node.Config) { c.Clock = clock })
			a.mustRun(t, "x", 1)
			c := a.Begin(context.Background(), node.Request{Cell: "x", Timeout: time.Minute})
			if act == "dispatch" {
				clock.left.Store(1) // the step's reading is the last before the stop
			}
			e := c.Next(context.Background())
			if act == "dispatch" {
				if !isFail(e) {
					t.Errorf("stopped before the dispatch, the request was run: %#v", e)
				}
			} else {
				clock.left.Store(1)
				if _, ok := c.Ready(context.Background()); ok {
					t.Error("stopped before the answer, it was let out")
				}
			}
			c.Done()
			<-a.Done()
		}
	})
}

// A write that was decided with authority is not sent without it.
func TestStoppedBeforeTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newLeapClock()
		a := newFleet(t).start("a", func(c *node.Config) { c.Clock = clock })
		a.resetCounts()
		c := a.Begin(context.Background(), node.Request{Cell: "x", Timeout: time.Minute})
		defer c.Done()
		a.faults[0].Set(buckettest.Rule{When: buckettest.Is(buckettest.Get), Do: func(ctx context.Context, _ buckettest.Call, do func(context.Context) error) error {
			err := do(ctx)
			clock.left.Store(1) // the step that decides the claim reads it last
			return err
		}})
		if e := c.Next(context.Background()); !isFail(e) {
			t.Errorf("got %#v", e)
		}
		<-a.Done()
		if n := a.cells.N(buckettest.Create, "cells"); n != 0 {
			t.Errorf("%d claims were sent after authority had ended", n)
		}
	})
}

func isFail(e core.Effect) bool {
	_, ok := e.(core.Fail)
	return ok
}

// hookClock does something at a reading, before the value is sampled.
type hookClock struct {
	testClock
	hook *atomic.Pointer[func()]
}

func (c hookClock) Now() core.Time {
	if h := c.hook.Swap(nil); h != nil {
		(*h)()
	}
	return c.testClock.Now()
}

// A session can end before its authority has: its lease record is gone. What was
// decided before is then not begun any more (S7), also by a goroutine that was
// stopped just before it compares the clock.
func TestFencedBeforeTheAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, act := range []string{"dispatch", "answer"} {
			f := newFleet(t)
			clock := hookClock{hook: new(atomic.Pointer[func()])}
			a := f.start("a", func(c *node.Config) { c.Clock = clock })
			a.mustRun(t, "x", 1)
			fence := func() {
				if err := f.store.Open().Delete(t.Context(), "nodes/"+string(a.ID())+".json"); err != nil {
					t.Error(err)
				}
				<-a.Done()
			}
			c := a.Begin(context.Background(), node.Request{Cell: "x", Timeout: time.Minute})
			again := func() { clock.hook.Store(&fence) } // the step's reading comes first
			if act == "dispatch" {
				clock.hook.Store(&again)
				if e := c.Next(context.Background()); !isFail(e) {
					t.Errorf("fenced before the dispatch, the request was run: %#v", e)
				}
			} else {
				c.Next(context.Background())
				clock.hook.Store(&again)
				if _, ok := c.Ready(context.Background()); ok {
					t.Error("fenced before the answer, it was let out")
				}
			}
			c.Done()
		}
	})
}
