package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Config is what a [Gateway] is made of. Decider, Peers and Local are required.
type Config struct {
	Decider Decider
	Peers   Peers
	Local   Local
	// Route says how a public request names its cell: path:/cells/{cell}/,
	// which is the default.
	Route string
	// Timeout bounds the time until an answer begins; default 30s. A peer may
	// ask for less, not for more.
	Timeout time.Duration
	// Log is told of applications that panic; default slog.Default().
	Log *slog.Logger
}

// Gateway is the public handler of a node, and, with [Gateway.ServePeer], its
// handler for requests that peers forward.
type Gateway struct {
	Config
	route route
}

// New checks the configuration. An unknown route is an error.
func New(c Config) (*Gateway, error) {
	if c.Decider == nil || c.Peers == nil || c.Local == nil {
		return nil, errors.New("gateway: Decider, Peers and Local are required")
	}
	if c.Route == "" {
		c.Route = DefaultRoute
	}
	route, err := parseRoute(c.Route)
	if err != nil {
		return nil, err
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Gateway{Config: c, route: route}, nil
}

// ServeHTTP serves a client's request. It cleans and redirects nothing.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, f := g.route.target(r)
	if f.Code != "" {
		WriteFailure(w, t.cell, f)
		return
	}
	if g.serve(w, r, t, g.Timeout) {
		finish(w, r)
	}
}

// finish lets the answer out and reads what is left of the request's body. In
// full duplex net/http would do the latter too late: the read that it begins in
// the background at the body's end then meets its own wait for the next request,
// and breaks the connection.
func finish(w http.ResponseWriter, r *http.Request) {
	if _, err := w.Write(nil); err != nil {
		return
	}
	_ = http.NewResponseController(w).Flush() // a failure shows in the body, too
	r.Body.Close()
}

// ServePeer serves a request that the node from has forwarded; the caller has
// authenticated it. Whatever this node itself has to say instead of the cell is
// marked, so that it cannot be mixed up with an answer of the application.
func (g *Gateway) ServePeer(w http.ResponseWriter, r *http.Request, from core.NodeID) {
	t, f := peerTarget(r)
	if f.Code != "" {
		writeRefusal(w, t.cell, f)
		return
	}
	g.serve(w, r, t, g.peerTimeout(r))
}

// peerTimeout is what is left of the time that the sender's client has.
func (g *Gateway) peerTimeout(r *http.Request) time.Duration {
	ms, err := strconv.ParseInt(r.Header.Get(peerTimeout), 10, 64)
	if err != nil || ms <= 0 || ms > g.Timeout.Milliseconds() {
		return g.Timeout
	}
	return time.Duration(ms) * time.Millisecond
}

// serve reports whether some of the body is left to be read.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, t target, timeout time.Duration) (left bool) {
	dropH2C(r.Header)
	call := g.Decider.Begin(r.Context(), t.cell, t.forwarded, timeout)
	defer call.Done()
	p := newPassage(g, call, w, r, t, time.Now().Add(timeout))
	defer func() { left = p.end() }()
	for {
		switch e := call.Next(call.Context()).(type) {
		case core.Dispatch:
			p.dispatch(e)
			return left
		case core.Forward:
			if p.forward(e) {
				return left
			}
		case core.Fail:
			p.refuse(e.Failure)
			return left
		default: // an Abort before anything began
			p.refuse(core.Failure{})
			return left
		}
	}
}
