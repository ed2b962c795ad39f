package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
)

func (m *member) connections() int {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	n := 0
	for _, g := range m.server.gates {
		g.mu.Lock()
		n += len(g.conns)
		g.mu.Unlock()
	}
	return n
}

func (c *Client) connections() int {
	c.conns.mu.Lock()
	defer c.conns.mu.Unlock()
	return len(c.conns.open)
}

func TestIdentity(t *testing.T) {
	a, b := newIdentity(t), newIdentity(t)
	if a.Key() == b.Key() || len(a.Key()) != 64 || strings.ToLower(a.Key()) != a.Key() {
		t.Errorf("keys %s, %s", a.Key(), b.Key())
	}
	if sameKey("", "") || sameKey(a.Key(), b.Key()) || !sameKey(a.Key(), a.Key()) {
		t.Error("sameKey")
	}
}

func TestConnectionsAreReused(t *testing.T) {
	a, b := pair(t, hello)
	for range 10 {
		send(t, a.to(b), request(t, "GET", nil))
		send(t, a.to(b), request(t, "HEAD", nil))
		send(t, a.to(b), request(t, "POST", strings.NewReader(strings.Repeat("x", 100))))
	}
	if n := a.client.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// Forget closes what is idle at once, and what is in use when it falls idle.
func TestForget(t *testing.T) {
	release := make(chan struct{})
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, _ core.NodeID) {
		http.NewResponseController(w).Flush()
		if r.Method == "POST" {
			<-release
		}
		io.WriteString(w, "done")
	})
	busy, err := a.to(b).RoundTrip(request(t, "POST", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Body.Close()
	send(t, a.to(b), request(t, "GET", nil))
	a.client.Forget("b-1")
	eventually(t, "only the busy connection is left", func() bool { return a.client.connections() == 1 && b.connections() == 1 })
	close(release)
	if got, err := io.ReadAll(busy.Body); string(got) != "done" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	eventually(t, "no connection is left", func() bool { return a.client.connections() == 0 && b.connections() == 0 })
	send(t, a.to(b), request(t, "GET", nil)) // a node that is called again is met again
}

// A request that found its pool just before that was retired leaves nothing.
func TestARetiredPoolKeepsNothing(t *testing.T) {
	a, b := pair(t, hello)
	p, err := a.client.pool(poolKey{"b-1", b.contact.Addr, b.contact.Key})
	if err != nil {
		t.Fatal(err)
	}
	a.client.Forget("b-1")
	resp, err := p.try(new(attempt), "a-1", request(t, "GET", nil), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	eventually(t, "no connection is left", func() bool { return a.client.connections() == 0 })
}

func TestTheTableOfPeersIsBounded(t *testing.T) {
	f := newFleet()
	a := f.join(t, "a-1", hello, func(_ *ServerOptions, o *ClientOptions) { o.MaxPeers = 2 })
	var others []*member
	for i := range 4 {
		o := f.join(t, core.NodeID(fmt.Sprint("o-", i)), hello)
		others = append(others, o)
		send(t, a.to(o), request(t, "GET", nil))
	}
	eventually(t, "two connections are left", func() bool { return a.client.connections() == 2 })
	if a.client.pools.len() != 2 {
		t.Errorf("%d peers", a.client.pools.len())
	}
	send(t, a.to(others[0]), request(t, "GET", nil))
}

func TestCloseEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	f := newFleet()
	started := make(chan struct{})
	a := f.join(t, "a-1", hello)
	b := f.join(t, "b-1", func(w http.ResponseWriter, r *http.Request, _ core.NodeID) {
		if r.Method == "GET" {
			c, _, _ := http.NewResponseController(w).Hijack()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
			return // without closing: the server does
		}
		started <- struct{}{}
		<-r.Context().Done()
	})
	conn := upgrade(t, a.to(b))
	failed := make(chan error, 1)
	go func() {
		_, err := a.to(b).RoundTrip(request(t, "POST", nil))
		failed <- err
	}()
	<-started
	a.client.Close()
	if err := within(t, "the request fails", failed); err == nil || NotConnected(err) {
		t.Error(err)
	}
	if err := fails(t, a.to(b), request(t, "GET", nil), true); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the upgraded connection lives")
	}
	a.server.Close()
	b.server.Close()
	eventually(t, "no connection is left", func() bool { return a.client.connections()+b.connections() == 0 })
	// The two request contexts and this goroutine's like may still be there.
	eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before+1 })
}

func TestShutdownWaits(t *testing.T) {
	a, b := pair(t, func(w http.ResponseWriter, _ *http.Request, _ core.NodeID) {
		c, rw, _ := http.NewResponseController(w).Hijack()
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
		io.Copy(c, rw)
	})
	conn := upgrade(t, a.to(b))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with an upgraded connection: %v", err)
	}
	fails(t, a.to(b), request(t, "GET", nil), true) // nothing new is accepted
	conn.Close()
	if err := b.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLRU(t *testing.T) {
	l := newLRU[string, int](2)
	l.put("a", 1)
	l.put("b", 2)
	l.get("a")
	if gone, ok := l.put("c", 3); !ok || gone != 2 {
		t.Errorf("evicted %v %v", gone, ok)
	}
	if _, ok := l.put("a", 4); ok || l.len() != 2 {
		t.Error("replacing evicts nothing")
	}
	if got := l.take(func(k string) bool { return k == "a" }); len(got) != 1 || got[0] != 4 || l.len() != 1 {
		t.Errorf("took %v", got)
	}
	l.remove("nobody")
	if _, ok := l.get("a"); ok {
		t.Error("a is still there")
	}
}

func TestBodyCutsTheEarlierAttemptOff(t *testing.T) {
	b := NewBody(io.NopCloser(strings.NewReader("content")))
	first, _ := b.Open()
	second, _ := b.Open()
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, errBodyRevoked) {
		t.Error(err)
	}
	if got, err := io.ReadAll(second); string(got) != "content" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, ok := b.Open(); ok {
		t.Error("it was read")
	}
	empty := NewBody(nil)
	for range 2 {
		if rc, ok := empty.Open(); !ok || rc != http.NoBody {
			t.Error("an empty body can be sent for ever")
		}
	}
}

// A peer that is shut down has said so before: a request that comes next finds no
// connection, rather than one on which it cannot be told from one that ran.
func TestShutdownIsNoticed(t *testing.T) {
	for range 50 {
		a, b := pair(t, hello)
		send(t, a.to(b), request(t, "POST", nil))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := b.server.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		fails(t, a.to(b), request(t, "POST", nil), true)
	}
}
