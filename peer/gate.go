package peer

import (
	"container/list"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/core"
)

// gate is a listener of TLS connections whose handshake is done. It bounds the
// strangers, which are the connections that no request has proved to be a
// peer's yet: a new one beyond the bound ends the oldest. A peer stays a
// stranger for some milliseconds, so those who only hold on to connections push
// each other out.
type gate struct {
	net.Listener
	config  *tls.Config
	timeout time.Duration // for a handshake
	max     int           // strangers

	parting atomic.Bool // connections end by and by: see guest.Close

	ready chan accepted
	ctx   context.Context // ends when the gate closes
	shut  context.CancelFunc

	mu        sync.Mutex
	conns     map[*guest]struct{}
	strangers *list.List // of *guest, the oldest in front
	empty     chan struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

func newGate(l net.Listener, config *tls.Config, timeout time.Duration, maxStrangers int) *gate {
	g := &gate{
		Listener: l, config: config, timeout: timeout, max: maxStrangers,
		ready:     make(chan accepted),
		conns:     make(map[*guest]struct{}),
		strangers: list.New(),
	}
	g.ctx, g.shut = context.WithCancel(context.Background())
	go g.run()
	return g
}

// run accepts until the gate is closed. It hands errors on and leaves it to the
// HTTP server to pause after them.
func (g *gate) run() {
	for g.ctx.Err() == nil {
		raw, err := g.Listener.Accept()
		if err != nil {
			g.hand(accepted{err: err})
			continue
		}
		go g.greet(g.enter(raw))
	}
}

func (g *gate) greet(c *guest) {
	ctx, cancel := context.WithTimeout(g.ctx, g.timeout)
	defer cancel()
	secure := tls.Server(c, g.config)
	if secure.HandshakeContext(ctx) != nil || !g.hand(accepted{conn: secure}) {
		c.Close()
	}
}

// hand reports whether the HTTP server took it.
func (g *gate) hand(a accepted) bool {
	select {
	case g.ready <- a:
		return true
	case <-g.ctx.Done():
		return false
	}
}

// Accept returns a *tls.Conn after its handshake.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case a := <-g.ready:
		return a.conn, a.err
	case <-g.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends the listener and the handshakes under way, and leaves established
// connections alone.
func (g *gate) Close() error {
	g.shut()
	return g.Listener.Close()
}

func (g *gate) enter(raw net.Conn) *guest {
	c := &guest{Conn: raw, gate: g}
	g.mu.Lock()
	g.conns[c] = struct{}{}
	c.place = g.strangers.PushBack(c)
	var oldest *guest
	if g.strangers.Len() > g.max {
		oldest = g.strangers.Remove(g.strangers.Front()).(*guest)
		oldest.place = nil
	}
	g.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	return c
}

// welcome takes a connection off the strangers.
func (g *gate) welcome(c *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.welcomeLocked(c)
}

func (g *gate) welcomeLocked(c *guest) {
	if c.place != nil {
		g.strangers.Remove(c.place)
		c.place = nil
	}
}

func (g *gate) leave(c *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.welcomeLocked(c)
	delete(g.conns, c)
	if len(g.conns) == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// evict closes every connection, upgraded ones too, which the HTTP server has
// forgotten.
func (g *gate) evict() {
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.conns))
	g.mu.Unlock()
	for _, c := range all {
		c.close()
	}
}

// wait returns when no connection is left, or with the context's error.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	if len(g.conns) == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// guest is an accepted TCP connection.
type guest struct {
	net.Conn
	gate  *gate
	place *list.Element // among the strangers; guarded by the gate's mu
	// verified is the session that the connection's key was found to belong to
	// last: a process may change its id, but not its key.
	verified atomic.Pointer[core.NodeID]
	parted   atomic.Bool // the peer has been let know of the end
}

func (c *guest) is(node core.NodeID) bool {
	v := c.verified.Load()
	return v != nil && *v == node
}

func (c *guest) verify(node core.NodeID) {
	c.verified.Store(&node)
	c.gate.welcome(c)
}

// Close closes the connection and strikes it from the gate. In a shutdown it
// first lets the peer know and waits, not here, until the peer has closed its
// side: a request that is sent on a connection already closed cannot be told from
// one that ran.
func (c *guest) Close() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !c.gate.parting.Load() || !ok || c.parted.Swap(true) {
		return c.close()
	}
	if half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(partTimeout)) != nil {
		return c.close()
	}
	go func() {
		_, _ = io.Copy(io.Discard, c.Conn)
		c.close()
	}()
	return nil
}

// partTimeout is how long a peer may take to notice the end of a connection.
const partTimeout = 200 * time.Millisecond

func (c *guest) close() error {
	c.gate.leave(c)
	return c.Conn.Close()
}
