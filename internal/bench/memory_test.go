package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/mem"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// forgetful is a bucket in which every cell is unowned and every claim
// succeeds, without keeping a record, so that only the node's memory counts.
type forgetful struct{ bucket.Bucket }

func (f forgetful) Get(ctx context.Context, key string) (bucket.Object, error) {
	if strings.HasPrefix(key, "cells/") {
		return bucket.Object{}, bucket.ErrNotExist
	}
	return f.Bucket.Get(ctx, key)
}

func (f forgetful) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if strings.HasPrefix(key, "cells/") {
		// As long as an S3 ETag with its quotes.
		return bucket.Written{Version: bucket.Version(fmt.Sprintf("%q", strings.Repeat("0123456789abcdef", 2)))}, nil
	}
	return f.Bucket.Create(ctx, key, body)
}

// host gives each cell a handler of its own, as small as one can be.
type host struct{}

type handler struct{ count uint64 }

func (h *handler) ServeHTTP(http.ResponseWriter, *http.Request) { h.count++ }

func (host) Activate(context.Context, core.Activate) (http.Handler, error) { return new(handler), nil }
func (host) Deactivate(context.Context, core.Deactivate)                   {}

func start(tb testing.TB) *node.Node {
	store := mem.NewStore(nil)
	n, err := node.New(node.Config{
		Cells: forgetful{store.Open()}, Lease: store.Open(), Leases: store.Open(), Name: "bench", TTL: time.Minute,
		Contact: core.Contact{Addr: "127.0.0.1:1", Key: strings.Repeat("0", 64), Protocol: 1},
		Probe:   func(context.Context, core.NodeID, core.Contact) error { return io.EOF },
		Host:    host{}, Log: slog.New(slog.DiscardHandler), MaxQueue: 1 << 20,
		DrainTimeout: time.Second, Limits: func(c *core.Config) { c.MaxActivations = 256 },
	})
	if err != nil {
		tb.Fatal(err)
	}
	n.Start()
	tb.Cleanup(func() { n.Drain(); <-n.Done() })
	<-n.Ready()
	return n
}

func heap() (bytes uint64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse, runtime.NumGoroutine()
}

// activate makes cells from..to resident.
func activate(tb testing.TB, n *node.Node, from, to int) {
	var wg sync.WaitGroup
	next := make(chan int, 1024)
	for range 512 {
		wg.Go(func() {
			for i := range next {
				c := n.Begin(context.Background(), node.Request{Cell: core.CellName(fmt.Sprintf("room:%010d", i)), Timeout: time.Minute})
				if e, ok := c.Next(context.Background()).(core.Dispatch); !ok {
					tb.Errorf("cell %d: %#v", i, e)
				}
				c.Ready(context.Background())
				c.Done()
			}
		})
	}
	for i := from; i < to; i++ {
		next <- i
	}
	close(next)
	wg.Wait()
}

// BenchmarkResidentCells measures the memory of a whole node with a Host per
// resident cell, with names of 15 bytes and versions as long as S3's.
func BenchmarkResidentCells(b *testing.B) {
	const cells = 1_000_000
	for b.Loop() {
		n := start(b)
		before, goroutines := heap()
		activate(b, n, 0, cells)
		after, now := heap()
		b.ReportMetric(float64(after-before)/cells, "bytes/cell")
		b.ReportMetric(float64(now-goroutines)/cells, "goroutines/cell")
		runtime.KeepAlive(n)
	}
}

// TestIdleCellsCost fails before the benchmark's figure can creep up unseen.
func TestIdleCellsCost(t *testing.T) {
	const cells = 50_000
	n := start(t)
	activate(t, n, 0, 1000) // what is allocated once
	before, goroutines := heap()
	activate(t, n, 1000, 1000+cells)
	after, now := heap()
	if per := float64(after-before) / cells; per > 512 {
		t.Errorf("a resident cell costs %.0f bytes, at most 512 are allowed", per)
	}
	if now > goroutines+10 {
		t.Errorf("%d goroutines more with %d idle cells", now-goroutines, cells)
	}
	runtime.KeepAlive(n)
}
