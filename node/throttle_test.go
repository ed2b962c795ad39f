package node_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/pace"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
	"github.com/tenure-go/tenure/node"
)

// paced is how the program opens its buckets.
func paced(c *node.Config) {
	p := pace.New(pace.Options{Class: wire.ClassOfKey, Random: func() float64 { return 0.5 }})
	c.Cells, c.Lease, c.Leases = p.Bucket(c.Cells), p.Lane(c.Lease), p.Bucket(c.Leases)
}

// Half a TTL in which the store throttles everything costs no node its life, and
// is not answered with a flood; each request is refused, and was not run.
func TestThrottledForHalfATTL(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			a := newFleet(t).start("a", paced)
			<-time.After(12 * time.Second)
			a.resetCounts()
			for _, f := range a.faults {
				f.Set(buckettest.Rule{When: buckettest.Any, Do: buckettest.FailBefore(bucket.Throttled(nil, wait))})
			}
			from := time.Now()
			for i := 0; time.Since(from) < 5*time.Second; i++ {
				go func() {
					e := a.ask(core.CellName(fmt.Sprint(i)))
					f, failed := e.(core.Fail)
					refused := failed && !f.Failure.Ran && (f.Failure.Code == core.CodeStoreUnavailable || f.Failure.Code == core.CodeTimeout)
					if !refused && (failed || time.Since(from) < 5*time.Second) {
						t.Errorf("a request while everything is throttled: %#v after %v", e, time.Since(from))
					}
				}()
				<-time.After(10 * time.Millisecond)
			}
			if err := a.CheckCells(t.Context()); err != nil {
				t.Errorf("a store that throttles does not count as one that answers: %v", err)
			}
			for _, f := range a.faults {
				f.Set()
			}
			sent := a.cells.N(buckettest.Get, "cells") + a.cells.N(buckettest.Create, "cells")
			if renewals := a.lease.N(buckettest.Replace, "nodes"); sent > 30 || renewals < 3 || renewals > 30 {
				t.Errorf("Retry-After %v: in 5s of throttling 500 requests and the lease cost %d and %d", wait, sent, renewals)
			}
			<-time.After(mostPause(wait))
			a.mustRun(t, "late", 1)
			if a.Err() != nil || a.Status().Margin < 6*time.Second {
				t.Errorf("%v, margin %v", a.Err(), a.Status().Margin)
			}
		})
	}
}

// mostPause is what is waited for after a throttle.
func mostPause(retryAfter time.Duration) time.Duration { return 10*time.Second + retryAfter }

// A claim that was held back is not sent once authority has ended meanwhile.
func TestStoppedWhileHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newLeapClock()
		a := newFleet(t).start("a", paced, func(c *node.Config) { c.Clock = clock })
		a.resetCounts()
		reads := 0
		a.faults[0].Set(buckettest.Rule{When: buckettest.Is(buckettest.Get), Do: func(ctx context.Context, _ buckettest.Call, do func(context.Context) error) error {
			if reads++; reads == 1 {
				return bucket.ErrThrottled
			}
			// The claim that follows is held back for longer than this.
			time.AfterFunc(time.Millisecond, func() { clock.leap.Store(int64(time.Hour)) })
			return do(ctx)
		}})
		c := a.Begin(context.Background(), node.Request{Cell: "x", Timeout: time.Minute})
		defer c.Done()
		if e := c.Next(context.Background()); !isFail(e) {
			t.Errorf("got %#v", e)
		}
		<-a.Done()
		if n := a.cells.N(buckettest.Create, "cells"); n != 0 || reads != 2 || !errors.Is(a.Err(), node.ErrFenced) {
			t.Errorf("%d claims sent after authority had ended, %d reads, %v", n, reads, a.Err())
		}
	})
}
