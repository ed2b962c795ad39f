package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

var (
	errStale   = errors.New("the idle connection had ended")
	errNoTwice = errors.New("the request was begun on another connection")
)

// attempt is one try to send one request. Its invariant: once a byte of it may
// have left on one connection, none leaves on another. net/http by itself sends
// an idempotent request again when a reused connection breaks.
type attempt struct {
	nonce   string
	cancel  context.CancelCauseFunc
	refusal Refusal // of the peer's door

	// on is the connection on which a byte may have left; nil before that.
	on     atomic.Pointer[conn]
	reused atomic.Bool // the last connection it got had carried others
}

// begun reports that a byte of the request may have reached a peer.
func (a *attempt) begun() bool { return a.on.Load() != nil }

// stale reports that the attempt failed for nothing but an idle connection that
// had ended: nothing was written.
func (a *attempt) stale() bool { return !a.begun() && a.reused.Load() }

// got is called when the attempt is given a connection, before it writes.
func (a *attempt) got(info httptrace.GotConnInfo) {
	a.reused.Store(info.Reused)
	if c, ok := info.Conn.(*conn); ok {
		c.assign(a)
	}
}

// conn is an established TLS connection to a peer that knows the attempt which
// it carries.
type conn struct {
	*tls.Conn
	raw     *countedConn
	onClose func()

	mu       sync.Mutex
	attempt  *attempt
	answered bool  // a byte has arrived since the attempt was assigned
	ended    error // what the last read failed with
}

func (c *conn) assign(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt, c.answered = a, false
}

// Write keeps the attempt's invariant, and reports at least one byte as written
// if any left, even if only a part of a TLS record.
func (c *conn) Write(p []byte) (int, error) {
	first, err := c.begin()
	if err != nil {
		return 0, err
	}
	before := c.raw.written.Load()
	n, err := c.Conn.Write(p)
	if err != nil && n == 0 && c.raw.written.Load() != before {
		n = 1
	}
	switch {
	case first != nil && n == 0:
		first.on.Store(nil)
	case err != nil:
		c.broke(err)
	}
	return n, err
}

// begin makes this the attempt's connection, and returns the attempt if it was
// not before. It excludes ending: a request is either begun before the
// connection was seen to end, or not at all.
func (c *conn) begin() (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attempt
	switch {
	case a == nil:
		return nil, nil
	case a.on.Load() == c:
		return nil, nil // also after ended: an upgraded connection may be half closed
	case c.ended != nil:
		return nil, fmt.Errorf("%w: %w", errStale, c.ended)
	case !a.on.CompareAndSwap(nil, c):
		return nil, errNoTwice
	}
	return a, nil
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.observe(n, err)
	return n, err
}

func (c *conn) observe(n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = c.answered || n > 0
	if err != nil {
		c.ended = err
		c.brokeLocked(err)
	}
}

func (c *conn) broke(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brokeLocked(err)
}

// brokeLocked cancels an attempt whose connection breaks before any answer,
// before net/http hears of it: a cancelled request is not sent again. The first
// cause stays the attempt's.
func (c *conn) brokeLocked(err error) {
	if a := c.attempt; a != nil && !c.answered && a.on.Load() == c {
		a.cancel(err)
	}
}

// Close closes the connection and strikes it from its pool.
func (c *conn) Close() error {
	c.onClose()
	return c.Conn.Close()
}

// countedConn counts what is written below TLS.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}
