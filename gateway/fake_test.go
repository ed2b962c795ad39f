package gateway

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
)

// decider is a deciding loop that does what a test says.
type decider struct {
	self core.NodeID
	// plan answers Next: the n-th one of a call, from 0.
	plan func(c *call, n int) core.Effect

	mu    sync.Mutex
	calls []*call
}

func (d *decider) Self() core.NodeID { return d.self }

func (d *decider) Begin(ctx context.Context, cell core.CellName, forwarded bool, timeout time.Duration) Call {
	c := &call{cell: cell, forwarded: forwarded, timeout: timeout, plan: d.plan, done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
	return c
}

// last returns the newest call.
func (d *decider) last() *call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[len(d.calls)-1]
}

// settle waits until all calls are done.
func (d *decider) settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		<-c.done
	}
}

type call struct {
	cell      core.CellName
	forwarded bool
	timeout   time.Duration
	plan      func(c *call, n int) core.Effect
	ctx       context.Context
	cancel    context.CancelFunc
	done      chan struct{} // closed by Done

	mu       sync.Mutex
	n        int
	failure  core.Failure
	ready    func() // before an answer is let out
	readied  int
	failed   []core.ForwardFailure
	refusals []core.Failure
}

func (c *call) Next(context.Context) core.Effect {
	c.mu.Lock()
	n := c.n
	c.n++
	f := c.failure
	c.mu.Unlock()
	if f.Code != "" || c.ctx.Err() != nil {
		return core.Fail{Failure: f}
	}
	return c.plan(c, n)
}

func (c *call) Context() context.Context { return c.ctx }

func (c *call) Ready(context.Context) (core.Failure, bool) {
	c.mu.Lock()
	c.readied++
	ready := c.ready
	c.mu.Unlock()
	if ready != nil && c.ctx.Err() == nil {
		ready()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure, c.failure.Code == "" && c.ctx.Err() == nil
}

func (c *call) ForwardFailed(how core.ForwardFailure, refusal core.Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, how)
	c.refusals = append(c.refusals, refusal)
}

func (c *call) Done() { close(c.done) } // twice panics

// fail is what the core does to a request that has no answer yet.
func (c *call) fail(f core.Failure) {
	c.mu.Lock()
	c.failure = f
	c.mu.Unlock()
	c.cancel()
}

func (c *call) hops() []core.ForwardFailure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// peers reaches nodes over plain HTTP.
type peers struct {
	transport *http.Transport
}

func newPeers(t *testing.T) *peers {
	p := &peers{&http.Transport{
		DialContext:           countDials((&net.Dialer{}).DialContext),
		DisableCompression:    true,
		ExpectContinueTimeout: time.Minute,
	}}
	t.Cleanup(p.transport.CloseIdleConnections)
	return p
}

func (p *peers) Transport(_ core.NodeID, c core.Contact) http.RoundTripper {
	if c.Addr == "" {
		return nil
	}
	return plain{p.transport}
}

func (p *peers) NotConnected(err error) bool { return !wireOf(err).wrote }

// plain sends as package peer does, but in plain text.
type plain struct{ t http.RoundTripper }

const testExpect = "Tenure-Test-Expect"

func (p plain) RoundTrip(r *http.Request) (*http.Response, error) {
	r, u := r.WithContext(r.Context()), *r.URL
	u.Scheme = "http"
	r.URL = &u
	upload := &passageOf(r.Context()).upload
	if !upload.empty() && !upload.small() && r.Header.Get("Expect") == "" {
		r.Header.Set("Expect", "100-continue")
		r.Header.Set(testExpect, "added")
	}
	return roundTrip(p.t, r, upload)
}

// dispatchAt runs every request here.
func dispatchAt(epoch core.Epoch) func(*call, int) core.Effect {
	return func(c *call, _ int) core.Effect { return core.Dispatch{Cell: c.cell, Epoch: epoch} }
}

func forwardTo(node core.NodeID, addr string) func(*call, int) core.Effect {
	return func(c *call, _ int) core.Effect {
		return core.Forward{Cell: c.cell, Node: node, Contact: core.Contact{Addr: addr}}
	}
}

func localOf(h http.Handler) Local {
	return func(core.CellName, core.Epoch) http.Handler { return h }
}

func newGateway(t *testing.T, d *decider, l Local) *Gateway {
	t.Helper()
	g, err := New(Config{Decider: d, Peers: newPeers(t), Local: l, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func serveHTTP(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = silent
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func newApp(t *testing.T, target string) *App {
	t.Helper()
	a, err := NewApp(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func addrOf(s *httptest.Server) string { return s.Listener.Addr().String() }

// fleet is a client's node and, where the request is forwarded, the owner.
type fleet struct {
	url   string   // of the client's node
	node  *decider // of the client's node
	owner *decider // the node that runs requests; may be node
}

// ownerEpoch is the epoch at which all fleets run their cells.
const ownerEpoch = 7

// ways are all the ways from a client to a handler.
var ways = map[string]func(t *testing.T, app http.Handler) *fleet{
	"host": func(t *testing.T, app http.Handler) *fleet { return here(t, app) },
	"wrapped app": func(t *testing.T, app http.Handler) *fleet {
		a := newApp(t, serveHTTP(t, app).URL)
		return here(t, http.HandlerFunc(a.ServeHTTP))
	},
	"app": func(t *testing.T, app http.Handler) *fleet { return here(t, newApp(t, serveHTTP(t, app).URL)) },
	"forward, host": func(t *testing.T, app http.Handler) *fleet {
		return elsewhere(t, app)
	},
	"forward, app": func(t *testing.T, app http.Handler) *fleet {
		return elsewhere(t, newApp(t, serveHTTP(t, app).URL))
	},
}

func here(t *testing.T, h http.Handler) *fleet {
	d := &decider{self: "a-1", plan: dispatchAt(ownerEpoch)}
	return &fleet{serveHTTP(t, newGateway(t, d, localOf(h))).URL, d, d}
}

func elsewhere(t *testing.T, h http.Handler) *fleet {
	owner := &decider{self: "b-1", plan: dispatchAt(ownerEpoch)}
	peer := servePeer(t, newGateway(t, owner, localOf(h)))
	d := &decider{self: "a-1", plan: forwardTo("b-1", addrOf(peer))}
	return &fleet{serveHTTP(t, newGateway(t, d, localOf(nil))).URL, d, owner}
}

func servePeer(t *testing.T, g *Gateway) *httptest.Server {
	return serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(testExpect) != "" {
			r.Header.Del("Expect")
		}
		g.ServePeer(w, r, "a-1")
	}))
}

// everyWay runs a test once for each way.
func everyWay(t *testing.T, app http.HandlerFunc, test func(t *testing.T, f *fleet)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { test(t, way(t, app)) })
	}
}
