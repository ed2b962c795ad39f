package tenure_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure"
)

// cable is the network between a node and its peers. Cut, it swallows what is
// sent and answers no dial; nothing is refused or reset.
type cable struct {
	cut   atomic.Bool
	dials atomic.Int64 // since the cut
	under atomic.Int64 // way, or connected
	most  atomic.Int64
}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if n := c.under.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	if c.cut.Load() {
		defer c.under.Add(-1)
		c.dials.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		c.under.Add(-1)
		return nil, err
	}
	return &wire{Conn: conn, cable: c, closed: make(chan struct{})}, nil
}

// wire is one connection by the cable.
type wire struct {
	net.Conn
	cable  *cable
	once   sync.Once
	closed chan struct{}
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if w.cable.cut.Load() {
		<-w.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	if w.cable.cut.Load() {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed); w.cable.under.Add(-1) })
	return w.Conn.Close()
}

// outcome is how one request ended.
type outcome struct {
	status int
	code   string
	took   time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("%d %s after %v", o.status, o.code, o.took.Round(time.Millisecond))
}

func get(c *http.Client, url string) outcome {
	from := time.Now()
	res, err := c.Get(url)
	if err != nil {
		return outcome{code: err.Error(), took: time.Since(from)}
	}
	defer res.Body.Close()
	var problem struct{ Code string }
	body, _ := io.ReadAll(res.Body)
	_ = json.Unmarshal(body, &problem) // an answer of the cell is no problem
	return outcome{res.StatusCode, problem.Code, time.Since(from)}
}

// An owner that is cut off from a peer, and goes on renewing its lease, costs that
// peer's callers their own time-out at the most and a coded error, and the peer no
// pile of connections; and it is the owner still when the network is back.
func TestCutOffOwner(t *testing.T) {
	dir, host := t.TempDir(), new(rooms)
	a := start(t, dir, "a", func(c *tenure.Config) { c.Host = host })
	var net cable
	const timeout = 3 * time.Second
	b := start(t, dir, "b", func(c *tenure.Config) { c.DialFunc, c.RequestTimeout = net.dial, timeout })
	if status, _, node := ask(a, "GET", "/cells/x/"); status != 200 || node != a.ID() {
		t.Fatalf("%d from %s", status, node)
	}
	server := httptest.NewServer(b.Handler())
	defer server.Close()
	client := server.Client()
	url := server.URL + "/cells/x/"
	if got := get(client, url); got.status != 200 {
		t.Fatalf("before the cut: %v", got)
	}

	net.cut.Store(true)
	const callers = 500
	outcomes := make(chan outcome, callers)
	for range callers {
		go func() { outcomes <- get(client, url) }()
	}
	slow, codes := 0, map[string]int{}
	for range callers {
		o := <-outcomes
		codes[o.code]++
		if o.status < 500 || o.code == "" || o.took > timeout+2*time.Second {
			t.Fatalf("at the cut: %v", o)
		}
		if o.took > timeout/2 {
			slow++
		}
	}
	t.Logf("%d callers: %v, %d slow; %d dials, %d connections at once", callers, codes, slow, net.dials.Load(), net.most.Load())
	if slow > callers/10 {
		t.Errorf("%d of %d callers waited for long", slow, callers)
	}
	if n := net.most.Load(); n > 70 {
		t.Errorf("%d connections at once", n)
	}
	// Contact has failed: who comes now is told at once, and dials nothing.
	before, from := net.dials.Load(), time.Now()
	for range 100 {
		o := get(client, url)
		if o.code != "owner-unreachable" || o.status != 503 {
			t.Fatalf("after the cut: %v", o)
		}
	}
	took := time.Since(from) // it is asked now and then whether it is back
	if n := net.dials.Load() - before; n > 5+int64(took/(300*time.Millisecond)) {
		t.Errorf("%d dials for 100 requests to an owner out of reach, in %s", n, took)
	}

	net.cut.Store(false)
	for deadline := time.Now().Add(10 * time.Second); get(client, url).status != 200; {
		if time.Now().After(deadline) {
			t.Fatal("the owner is not found again")
		}
	}
	if l, err := b.Locate(t.Context(), "x"); err != nil || l.Node != a.ID() || l.Epoch != 1 {
		t.Errorf("located %+v, %v", l, err)
	}
}
