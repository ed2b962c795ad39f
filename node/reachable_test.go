package node_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// Whether the bucket of the cells answers is known though the leases are well, at
// no cost while it does, and for one read a second while it does not.
func TestCheckCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFleet(t).start("a")
		a.resetCounts()
		check := func(what string, well bool, gets int) {
			t.Helper()
			for range 10 {
				if err := a.CheckCells(t.Context()); (err == nil) != well {
					t.Errorf("%s: %v", what, err)
				}
			}
			if n := a.cells.N(buckettest.Get, "fleet"); n != gets {
				t.Errorf("%s: %d reads, want %d", what, n, gets)
			}
			a.resetCounts()
			<-time.After(time.Second)
		}
		check("at first", true, 0)
		for name, fault := range map[string]buckettest.Fault{"fails": buckettest.FailBefore(nil), "hangs": buckettest.Hang()} {
			a.faults[0].Set(buckettest.Rule{When: buckettest.Any, Do: fault})
			if f, ok := a.ask("x").(core.Fail); !ok || f.Failure.Code != core.CodeStoreUnavailable && f.Failure.Code != core.CodeTimeout {
				t.Errorf("%s: got %#v", name, f)
			}
			a.resetCounts()
			<-time.After(time.Second)
			check(name, false, 1)
			a.faults[0].Set()
			check("again", true, 1)
			check("after that", true, 0)
		}
	})
}

// A loop that is stuck does not answer: what asks it is told so in time.
func TestStuckLoopIsNoticed(t *testing.T) {
	var stuck atomic.Bool
	release := make(chan struct{})
	f := newFleet(t)
	a := f.prepare("a", func(c *node.Config) {
		c.Trace = func(node.Decision) {
			if stuck.Load() {
				<-release
			}
		}
	})
	a.Start()
	<-a.Ready()
	look := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return a.View(ctx, func(*core.State) {})
	}
	if err := look(10 * time.Second); err != nil {
		t.Error(err)
	}
	stuck.Store(true)
	go a.Evict("nothing")
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err := look(20 * time.Millisecond); errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the loop seems to turn")
		}
	}
	stuck.Store(false)
	close(release)
	if err := look(10 * time.Second); err != nil {
		t.Errorf("after it was stuck: %v", err)
	}
}
