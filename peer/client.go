package peer

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tenure-go/tenure/core"
)

const (
	defaultDialTimeout = 5 * time.Second
	defaultMaxPeers    = 1024
)

// ClientOptions configure a [Client]. Identity and Self are required.
type ClientOptions struct {
	Identity *Identity
	// Self is this process's current node id. It is called for every request.
	Self func() core.NodeID
	// Dial opens a TCP connection; net.Dialer's by default.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// DialTimeout bounds establishing one connection, with its TLS handshake
	// and the wait for a turn; it also bounds a probe. 5s by default.
	DialTimeout time.Duration
	// MaxPeers is for how many sessions idle connections are kept; 1024 by
	// default. Beyond it the one unused for longest loses its idle ones.
	MaxPeers int
}

// Client calls peers. It is safe for concurrent use.
type Client struct {
	o     ClientOptions
	conns *connSet

	mu     sync.Mutex
	pools  *lru[poolKey, *pool]
	closed bool
}

// NewClient returns a Client without connections.
func NewClient(o ClientOptions) *Client {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.MaxPeers <= 0 {
		o.MaxPeers = defaultMaxPeers
	}
	return &Client{o: o, conns: newConnSet(), pools: newLRU[poolKey, *pool](o.MaxPeers)}
}

// Transport returns what sends requests to one session of one node. It holds no
// resources and may be kept or dropped at will.
//
// The request's URL gives the path and the query; the connection goes to the
// contact's address. The Host header stays the caller's. Nothing bounds the wait
// for an answer but the request's context, which also ends the answer's body.
// That must be closed, as always; after 101 Switching Protocols it is the
// connection, an io.ReadWriteCloser with CloseWrite, on which the context has no
// hold any more. A request body of unknown length, or longer than
// [ExpectAbove], is sent only when the peer asks for it by "100 Continue", or
// has not answered for five minutes.
//
// Every error is an [*Error]; see [NotConnected].
func (c *Client) Transport(node core.NodeID, contact core.Contact) http.RoundTripper {
	return link{client: c, key: poolKey{node, contact.Addr, contact.Key}}
}

// Forget closes the node's idle connections; those in use are closed as they
// fall idle. A later request to the node is free to connect again.
func (c *Client) Forget(node core.NodeID) {
	c.mu.Lock()
	forgotten := c.pools.take(func(k poolKey) bool { return k.node == node })
	c.mu.Unlock()
	for _, p := range forgotten {
		p.retire()
	}
}

// Close closes every connection, also those in use and upgraded ones. Requests
// under way fail; later ones fail with [ErrClosed].
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	pools := c.pools.take(func(poolKey) bool { return true })
	c.mu.Unlock()
	for _, p := range pools {
		p.retire()
	}
	c.conns.shut()
}

// pool finds or makes the session's pool.
func (c *Client) pool(key poolKey) (*pool, error) {
	if key.addr == "" || key.key == "" {
		return nil, ErrNoContact
	}
	c.mu.Lock()
	p, evicted, err := c.poolLocked(key)
	c.mu.Unlock()
	if evicted != nil {
		evicted.retire()
	}
	return p, err
}

func (c *Client) poolLocked(key poolKey) (p, evicted *pool, err error) {
	if c.closed {
		return nil, nil, ErrClosed
	}
	p, ok := c.pools.get(key)
	if !ok {
		p = newPool(key, c.o, c.conns)
		evicted, _ = c.pools.put(key, p)
	}
	return p, evicted, nil
}
