package node_test

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// stuckHost never returns from what is asked of it, but for the activation of
// cells that cellName has not named.
type stuckHost struct {
	stuck func()
}

func (h stuckHost) Activate(_ context.Context, a core.Activate) (http.Handler, error) {
	if strings.HasPrefix(string(a.Cell), "cell-") {
		h.stuck()
	}
	return http.NotFoundHandler(), nil
}

func (h stuckHost) Deactivate(context.Context, core.Deactivate) { h.stuck() }

// stuckLog is where lines go and never arrive.
type stuckLog struct {
	slog.Handler
	stuck func()
}

func (l stuckLog) Handle(context.Context, slog.Record) error {
	l.stuck()
	return nil
}

func (l stuckLog) Enabled(context.Context, slog.Level) bool { return true }

// What an effect asks for is done elsewhere: with everything stuck that can be,
// renewals are on time, and a warm request is served at once, while 150 cells a
// second are opened.
func TestStuckEffectsDelayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, begun := make(chan struct{}), new(atomic.Int32)
		stuck := func() { begun.Add(1); <-release }
		f := newFleet(t)
		b := f.start("b")
		b.mustRun(t, "far", 1)
		a := f.start("a", func(c *node.Config) {
			c.Host = stuckHost{stuck}
			c.Probe = func(context.Context, core.NodeID, core.Contact) error { stuck(); return nil }
			c.Log = slog.New(stuckLog{stuck: stuck})
			c.MaxActivations = 1000
		})
		defer close(release)
		a.mustRun(t, "warm", 1)
		a.mustRun(t, "old", 1)
		a.Evict("old")
		silent := a.Begin(t.Context(), node.Request{Cell: "far", Timeout: time.Minute}) // has b probed
		defer silent.Done()
		silent.Next(t.Context())
		a.resetCounts()
		for i := range 30 * 150 {
			if i == 15*150 { // from now on the store is stuck too
				a.faults[0].Set(buckettest.Rule{When: buckettest.Any, Do: buckettest.Hang()})
			}
			go a.ask(cellName(i))
			<-time.After(time.Second / 150)
			from := time.Now()
			a.mustRun(t, "warm", 1)
			if took := time.Since(from); took != 0 {
				t.Fatalf("a warm request took %v", took)
			}
		}
		if n := a.lease.N(buckettest.Replace, "nodes"); n < 8 || n > 10 {
			t.Errorf("%d renewals in 3 TTLs, want 9", n)
		}
		if got := a.Status().Margin; got < 6*time.Second {
			t.Errorf("the last renewal left a margin of %s", got)
		}
		if n := begun.Load(); n < 1000 {
			t.Errorf("only %d calls were stuck", n)
		}
	})
}

// The application shares the process, and takes all the processor time that it
// can get: cells in endless loops, in requests and in what prepares them. That
// costs the node no renewal.
func TestEndlessLoopsCostNoLease(t *testing.T) {
	var end atomic.Bool
	defer end.Store(true)
	spin := func() {
		for !end.Load() {
		}
	}
	f := newFleet(t)
	a := f.prepare("a", func(c *node.Config) {
		c.TTL, c.Host, c.Clock = 2*time.Second, stuckHost{spin}, node.NewBootClock()
	})
	a.Start()
	<-a.Ready()
	for i := range 2 * runtime.GOMAXPROCS(0) {
		go a.ask(cellName(i)) // loops in Activate
		c := a.Begin(t.Context(), node.Request{Cell: "warm", Timeout: time.Minute})
		if e, ok := c.Next(t.Context()).(core.Dispatch); !ok {
			t.Fatalf("got %#v", e)
		}
		go func() {
			defer c.Done()
			spin()
		}()
	}
	a.resetCounts()
	<-time.After(5 * time.Second)
	if a.Err() != nil {
		t.Fatalf("it ended: %v", a.Err())
	}
	if n := a.lease.N(buckettest.Replace, "nodes"); n < 5 {
		t.Errorf("%d renewals in 5 s, with one due every 0.67 s", n)
	}
	a.mustRun(t, "warm", 1)
}
