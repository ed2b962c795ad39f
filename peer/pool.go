package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/core"
)

const (
	idlePerPeer  = 64
	dialsPerPeer = 64 // at a time; more wait within their dial timeout
	// idleFor is shorter than a server's idle timeout, so that the side which
	// knows what it is about to send closes first.
	idleFor = 90 * time.Second
	// continueAfter is generous because our own server always answers: the
	// wait covers resolving the cell. After it the body is sent all the same.
	continueAfter = 5 * time.Minute
	bufferSize    = 16 << 10 // a TLS record
)

// poolKey: another session at the same address, or the same at another, shares
// no connection.
type poolKey struct {
	node      core.NodeID
	addr, key string
}

// pool is the connections to one session of one peer.
type pool struct {
	key       poolKey
	set       *connSet
	config    *tls.Config
	dialRaw   func(ctx context.Context, network, addr string) (net.Conn, error)
	timeout   time.Duration
	dials     chan struct{}
	transport *http.Transport
	retired   atomic.Bool
}

func newPool(key poolKey, o ClientOptions, set *connSet) *pool {
	p := &pool{
		key:     key,
		set:     set,
		config:  o.Identity.clientTLS(key.key),
		dialRaw: o.Dial,
		timeout: o.DialTimeout,
		dials:   make(chan struct{}, dialsPerPeer),
	}
	p.transport = &http.Transport{
		DialTLSContext:        p.dial,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   idlePerPeer,
		IdleConnTimeout:       idleFor,
		ExpectContinueTimeout: continueAfter,
		ReadBufferSize:        bufferSize,
		WriteBufferSize:       bufferSize,
	}
	return p
}

// dial establishes one connection, handshake included, within the dial timeout.
func (p *pool) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	defer context.AfterFunc(p.set.ctx, cancel)()
	select {
	case p.dials <- struct{}{}:
		defer func() { <-p.dials }()
	case <-ctx.Done():
		return nil, p.whyEnded(ctx, ctx.Err())
	}
	c, err := p.connect(ctx, network, addr)
	if err != nil {
		return nil, p.whyEnded(ctx, err)
	}
	if err := p.set.add(c); err != nil {
		c.Conn.Close()
		return nil, err
	}
	return c, nil
}

// whyEnded names the end of the dial's context where that is why it failed.
func (p *pool) whyEnded(ctx context.Context, err error) error {
	switch {
	case p.set.ctx.Err() != nil:
		return ErrClosed
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, ErrWrongKey):
		return fmt.Errorf("no connection within %v: %w", p.timeout, context.DeadlineExceeded)
	}
	return err
}

func (p *pool) connect(ctx context.Context, network, addr string) (*conn, error) {
	tcp, err := p.dialRaw(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	raw := &countedConn{Conn: tcp}
	c := &conn{Conn: tls.Client(raw, p.config), raw: raw}
	c.onClose = func() { p.set.remove(c) }
	if err := c.HandshakeContext(ctx); err != nil {
		tcp.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return c, nil
}

// retire closes what is idle; what is in use is closed as it falls idle.
func (p *pool) retire() {
	p.retired.Store(true)
	p.transport.CloseIdleConnections()
}

// release is called when a request has ended and its connection is idle again.
func (p *pool) release() {
	if p.retired.Load() {
		p.transport.CloseIdleConnections()
	}
}

// connSet is every connection of a Client, in use or not, so that the Client can
// end them all.
type connSet struct {
	ctx context.Context // ends at shut; every dial ends with it
	end context.CancelFunc

	mu   sync.Mutex
	open map[*conn]struct{}
}

func newConnSet() *connSet {
	ctx, end := context.WithCancel(context.Background())
	return &connSet{ctx: ctx, end: end, open: make(map[*conn]struct{})}
}

// add fails once the set was shut.
func (s *connSet) add(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	s.open[c] = struct{}{}
	return nil
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// shut closes every connection and ends every dial.
func (s *connSet) shut() {
	s.mu.Lock()
	s.end()
	open := slices.Collect(maps.Keys(s.open))
	clear(s.open)
	s.mu.Unlock()
	for _, c := range open {
		c.raw.Close() // without a farewell, which the peer could still answer
	}
}
