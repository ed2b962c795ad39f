package node_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// slowHost takes its time, and notes what is asked of it.
type slowHost struct {
	activate, deactivate time.Duration

	mu     sync.Mutex
	inside int
	most   int
	seen   []string
}

func (h *slowHost) call(what string, epoch core.Epoch, d time.Duration) {
	h.mu.Lock()
	h.inside++
	h.most = max(h.most, h.inside)
	h.seen = append(h.seen, fmt.Sprintf("%s %d", what, epoch))
	h.mu.Unlock()
	<-time.After(d)
	h.mu.Lock()
	h.inside--
	h.mu.Unlock()
}

func (h *slowHost) Activate(_ context.Context, a core.Activate) (http.Handler, error) {
	h.call("activate", a.Epoch, h.activate)
	return http.NotFoundHandler(), nil
}

func (h *slowHost) Deactivate(_ context.Context, d core.Deactivate) {
	h.call("deactivate", d.Epoch, h.deactivate)
}

// What an activation began is ended, also if the session ended meanwhile.
func TestActivationOutlivesTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &slowHost{activate: 20 * time.Second}
		a := newFleet(t).start("a", func(c *node.Config) { c.Host = host })
		go a.ask("x")
		synctest.Wait()
		a.cut()
		<-a.Done()
		<-time.After(time.Minute)
		if got := fmt.Sprint(host.seen); got != "[activate 1 deactivate 1]" {
			t.Errorf("the host saw %s", got)
		}
	})
}

// The Host's calls for one cell never overlap, however long one takes.
func TestHostCallsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &slowHost{deactivate: 100 * time.Second}
		a := newFleet(t).start("a", func(c *node.Config) { c.Host = host })
		a.mustRun(t, "x", 1)
		a.Evict("x")
		for range 20 {
			a.ask("x")
			<-time.After(20 * time.Second)
		}
		a.Drain()
		<-a.Done()
		<-time.After(time.Hour) // until the last call has returned
		if host.most != 1 {
			t.Errorf("%d calls at once: %v", host.most, host.seen)
		}
	})
}

// A client that leaves says nothing about the owner that it waited for: clients
// with short time-outs do not keep a silent owner in its place.
func TestLeavingClientsProveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a")
		a.mustRun(t, "x", 1)
		b := f.start("b")
		a.cut() // it takes requests no more, and answers none
		for from := time.Now(); time.Since(from) < 30*time.Second; {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			c := b.Begin(ctx, node.Request{Cell: "x", Timeout: 30 * time.Second})
			switch c.Next(ctx).(type) {
			case core.Forward:
				<-ctx.Done()
				if failure, ok := c.Ready(c.Context()); ok || !failure.Ran {
					t.Fatalf("a request that was given up was answered: %+v", failure)
				}
			case core.Dispatch:
				c.Done()
				cancel()
				return
			}
			c.Done()
			cancel()
			<-time.After(100 * time.Millisecond)
		}
		t.Error("the cell never failed over")
	})
}
