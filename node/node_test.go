package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/mem"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// testClock is Go's own clock, which synctest controls.
type testClock struct{}

var origin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (testClock) Now() core.Time { return core.Time(time.Since(origin)) }

func (testClock) NewTimer(fire func()) node.Timer {
	return &testTimer{time.AfterFunc(time.Hour*1e5, fire)}
}

func (c testClock) Until(ctx context.Context, at core.Time) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(at-c.Now()))
}

type testTimer struct{ t *time.Timer }

func (t *testTimer) Close() { t.t.Stop() }
func (t *testTimer) Set(at core.Time) {
	if at == core.Time(1<<63-1) {
		t.t.Stop()
		return
	}
	t.t.Reset(time.Duration(at) - time.Since(origin))
}

// fleet is some nodes over one store, without a network: forwards are seen, not
// sent.
type fleet struct {
	t     *testing.T
	store *mem.Store
}

type member struct {
	*node.Node
	cells, lease, leases *buckettest.Counted
	faults               []*buckettest.Faulty
}

func newFleet(t *testing.T) *fleet { return &fleet{t: t, store: mem.NewStore(time.Now)} }

// start begins a member and waits until it holds its lease.
func (f *fleet) start(name string, change ...func(*node.Config)) *member {
	m := f.prepare(name, change...)
	m.Start()
	<-m.Ready()
	synctest.Wait()
	return m
}

func (f *fleet) prepare(name string, change ...func(*node.Config)) *member {
	m := &member{}
	handle := func() *buckettest.Counted {
		faulty := buckettest.Inject(f.store.Open())
		m.faults = append(m.faults, faulty)
		return buckettest.Count(faulty)
	}
	m.cells, m.lease, m.leases = handle(), handle(), handle()
	cfg := node.Config{
		Cells: m.cells, Lease: m.lease, Leases: m.leases, Name: name, TTL: 10 * time.Second,
		Contact: core.Contact{Addr: "127.0.0.1:1", Key: fmt.Sprintf("%064x", 1), Protocol: 1},
		Probe:   func(context.Context, core.NodeID, core.Contact) error { return errors.New("no network here") },
		Clock:   testClock{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	n, err := node.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	m.Node = n
	f.t.Cleanup(func() { n.Drain(); <-n.Done() })
	return m
}

// cut makes every operation of the member's buckets hang.
func (m *member) cut() {
	for _, f := range m.faults {
		f.Set(buckettest.Rule{When: buckettest.Any, Do: buckettest.Hang()})
	}
}

func (m *member) resetCounts() {
	for _, c := range []*buckettest.Counted{m.cells, m.lease, m.leases} {
		c.Reset()
	}
}

// ask runs one request to its first decision, and to its end if it was run
// here.
func (m *member) ask(cell core.CellName) core.Effect {
	c := m.Begin(context.Background(), node.Request{Cell: cell, Timeout: 5 * time.Second})
	defer c.Done()
	e := c.Next(context.Background())
	if _, ok := e.(core.Dispatch); ok {
		if f, ok := c.Ready(context.Background()); !ok {
			return core.Fail{Failure: f}
		}
	}
	return e
}

func (m *member) mustRun(t *testing.T, cell core.CellName, epoch core.Epoch) {
	t.Helper()
	e := m.ask(cell)
	if d, ok := e.(core.Dispatch); !ok || d.Epoch != epoch {
		t.Fatalf("%s: got %#v, want it run at epoch %d", cell, e, epoch)
	}
}

func (m *member) mustForward(t *testing.T, cell core.CellName, to *member) {
	t.Helper()
	e := m.ask(cell)
	if f, ok := e.(core.Forward); !ok || f.Node != to.ID() {
		t.Fatalf("%s: got %#v, want a forward to %s", cell, e, to.ID())
	}
}

func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.start("a"), f.start("b")
		a.mustRun(t, "x", 1)
		b.mustForward(t, "x", a)
		a.cut()
		<-a.Done()
		if !errors.Is(a.Err(), node.ErrFenced) {
			t.Fatalf("a ended with %v", a.Err())
		}
		<-time.After(time.Minute)
		b.mustRun(t, "x", 2)
	})
}

func TestDrainReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.start("a"), f.start("b")
		a.mustRun(t, "x", 1)
		a.Drain()
		<-a.Done()
		if a.Err() != nil {
			t.Fatal(a.Err())
		}
		b.mustRun(t, "x", 2)
	})
}
