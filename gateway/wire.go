package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// counted is a connection that counts the bytes that the network took.
type counted struct {
	net.Conn
	n atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// CloseWrite half-closes, where the connection can.
func (c *counted) CloseWrite() error {
	if hc, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return hc.CloseWrite()
	}
	return c.Close()
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

func countDials(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &counted{Conn: c}, nil
	}
}

// wire watches which connection a request is written to.
type wire struct {
	empty     bytes.Reader // the body of a request that has none; see once
	connected bool
	conn      *counted // nil if somebody else's
	start     int64
}

// gotConn is a hook of httptrace. net/http takes another connection after one
// on which nothing was written.
func (w *wire) gotConn(info httptrace.GotConnInfo) {
	w.connected = true
	if w.conn, _ = info.Conn.(*counted); w.conn != nil {
		w.start = w.conn.n.Load()
	}
}

// wrote reports whether a byte of the request may have been written.
func (w *wire) wrote() bool {
	return w.connected && (w.conn == nil || w.conn.n.Load() != w.start)
}

// wireError is the failure of one round trip.
type wireError struct {
	err error
	// connected: there was a connection. wrote: a byte may have been written.
	connected, wrote bool
}

func (e *wireError) Error() string { return e.err.Error() }
func (e *wireError) Unwrap() error { return e.err }

// wireOf takes an error that did not come from a round trip for the worst.
func wireOf(err error) *wireError {
	var e *wireError
	if errors.As(err, &e) {
		return e
	}
	return &wireError{err: err, connected: true, wrote: true}
}

// roundTrip sends a request of a passage once: it is never replayed after a
// byte of it was written, and a failure says exactly how far it got (as
// *wireError). It changes req, which must be the caller's own.
func roundTrip(t http.RoundTripper, req *http.Request, u *upload) (*http.Response, error) {
	w := new(wire)
	req = trace(req, w)
	once(req, u, w)
	res, err := t.RoundTrip(req)
	if err != nil {
		return nil, &wireError{err: err, connected: w.connected, wrote: w.wrote()}
	}
	return res, nil
}

// trace hooks w in. httputil.ReverseProxy has made a trace of its own for this
// very request; adding to it avoids composing two by reflection.
func trace(req *http.Request, w *wire) *http.Request {
	if t := httptrace.ContextClientTrace(req.Context()); t != nil && t.GotConn == nil {
		t.GotConn = w.gotConn
		return req
	}
	t := &httptrace.ClientTrace{GotConn: w.gotConn}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), t))
}

var errNoReplay = errors.New("the connection was closed after the request had been written")

// once makes net/http ask before it sends a request again. It does so through
// GetBody, and only if there is a body; so a request without one gets an empty
// one, and is told to say nothing about it on the wire.
func once(req *http.Request, u *upload, w *wire) {
	empty := req.Body == nil || req.Body == http.NoBody
	if empty && !replayable(req) {
		return // sent again only if nothing was written
	}
	if empty {
		// net/http does not know that it is empty. It does know that it is in
		// memory: else it would flush the header first, and allocate a large
		// buffer for the copy.
		req.Body, req.TransferEncoding = io.NopCloser(&w.empty), identity
		delete(req.Header, "Expect")
	}
	req.GetBody = func() (io.ReadCloser, error) {
		if w.wrote() {
			return nil, errNoReplay
		}
		if empty {
			return io.NopCloser(new(bytes.Reader)), nil // the other one may still be in use
		}
		if body, ok := u.reopen(); ok {
			return body, nil
		}
		return nil, errNoReplay
	}
}

// identity makes net/http send a body of unknown length, here nothing, as it
// is, without saying how long it is.
var identity = []string{"identity"}

// replayable is what net/http takes for that, of requests without a body. The
// keys of others are spelled so that it does not see them.
func replayable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	for _, k := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if vv, ok := req.Header[k]; ok {
			delete(req.Header, k)
			req.Header[strings.ToLower(k)] = vv
		}
	}
	return false
}
