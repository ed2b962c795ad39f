// Package exchange is HTTP between an adapter and its store: a client that
// shares its connections with nobody and sends each request once, and what is
// known of a request afterwards.
package exchange

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Client has a connection pool of its own, so that the traffic of one bucket
// never waits for that of another. It follows no redirects and decompresses
// nothing. It may be used concurrently.
type Client struct {
	pool *http.Transport
	http *http.Client
}

// NewClient makes a client without connections.
func NewClient() *Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	// HTTP/1 only: one connection is one request at a time, so that a dead
	// connection costs no more than that. Of a write, net/http then replays only
	// what it had not begun to write.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	pool := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true,
		Protocols:           &protocols,
	}
	return &Client{pool: pool, http: &http.Client{
		Transport:     pool,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do sends a request and notes in its Exchange, if it has one, what happens.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	x, watched := r.Context().Value(key{}).(*Exchange)
	if !watched {
		return c.http.Do(r)
	}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.sent.Store(true) }}
	answer, err := c.http.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err == nil {
		x.Status, x.Header = answer.StatusCode, answer.Header
	}
	return answer, err
}

// CloseIdle closes the connections that carry no request.
func (c *Client) CloseIdle() { c.pool.CloseIdleConnections() }

// Dial replaces how connections are made; for tests, before the first request.
func (c *Client) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.pool.DialContext = dial
}

// Exchange is what is known of a request, and of its last answer. It is complete
// when the request has returned.
type Exchange struct {
	sent   atomic.Bool
	Status int // 0 without an answer
	Header http.Header
}

type key struct{}

// Watch returns a context whose requests are noted in the exchange.
func Watch(ctx context.Context) (context.Context, *Exchange) {
	x := &Exchange{}
	return context.WithValue(ctx, key{}, x), x
}

// Sent is false if there was never a connection to write to, so that nothing
// can have reached the store.
func (x *Exchange) Sent() bool { return x.sent.Load() }

// Date is the store's stamp of the answer, or zero.
func (x *Exchange) Date() time.Time { return httpTime(x.Header.Get("Date")) }

// Modified is the store's stamp of the object, or zero.
func (x *Exchange) Modified() time.Time { return httpTime(x.Header.Get("Last-Modified")) }

// httpTime is zero for what is no time.
func httpTime(s string) time.Time {
	t, _ := http.ParseTime(s)
	return t
}

// NotCached is an error if the answer is not the store's own.
func (x *Exchange) NotCached() error {
	if x.Header.Get("Age") != "" {
		return errors.New("the answer came from a cache (it has an Age header); nothing may cache between this node and the store")
	}
	return nil
}
