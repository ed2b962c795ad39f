package tenure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/gateway"
	"github.com/tenure-go/tenure/internal/sweep"
	"github.com/tenure-go/tenure/internal/trace"
	"github.com/tenure-go/tenure/internal/wall"
	"github.com/tenure-go/tenure/internal/wire"
	"github.com/tenure-go/tenure/node"
	"github.com/tenure-go/tenure/peer"
)

// PeerProtocol is the version of the protocol that nodes speak with each other.
// Nodes with different ones do not forward requests to each other.
const PeerProtocol = peer.Protocol

// Node is one session of this process in the fleet.
type Node struct {
	cfg     Config
	node    *node.Node
	buckets buckets
	gateway *gateway.Gateway
	peers   *peer.Client
	app     *gateway.App
	servers []*server
	addrs   Addrs
	trace   *trace.Recorder // nil if none is wanted
	done    chan struct{}
	err     error         // valid when done is closed
	closed  chan struct{} // everything is: nothing more is to be waited for
}

// Addrs are the addresses bound.
type Addrs struct {
	Listen string // public HTTP; empty if none was asked for
	Peer   string // as advertised
	Admin  string // empty if none was asked for
}

// Start begins a session and opens its listeners. It does not wait for the
// lease: [Node.Ready] says when it is held, and the node tries for ever. ctx
// bounds Start alone. A configuration that cannot work is an error at once; a
// bucket that fails its start-up test ends the session (Done, Err).
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, done: make(chan struct{}), closed: make(chan struct{})}
	if err := n.start(ctx); err != nil {
		n.closeAll()
		return nil, err
	}
	go n.watch()
	go n.sweep()
	return n, nil
}

func (c *Config) check() error {
	switch {
	case c.Bucket == "":
		return errors.New("tenure: no bucket was given; sqlite:PATH needs nothing else")
	case c.Host != nil && c.App != "":
		return errors.New("tenure: both a Host and an App were given")
	case c.LeaseTTL != 0 && (c.LeaseTTL < node.MinTTL || c.LeaseTTL > node.MaxTTL):
		return fmt.Errorf("tenure: the lease TTL is %s; it must be between %s and %s", c.LeaseTTL, node.MinTTL, node.MaxTTL)
	case c.LeaseTTL%time.Millisecond != 0:
		return fmt.Errorf("tenure: the lease TTL is %s; it must be whole milliseconds", c.LeaseTTL)
	}
	if err := checkAdmin(c.AdminListen, c.AdminToken); err != nil {
		return err
	}
	c.setDefaults()
	return nil
}

func (c *Config) setDefaults() {
	if c.Name == "" {
		host, _ := os.Hostname() // an empty one is made safe too
		c.Name = wire.SafeName(host)
	}
	if c.PeerListen == "" {
		c.PeerListen = "127.0.0.1:0"
	}
	if c.IdleAfter == 0 {
		c.IdleAfter = 10 * time.Minute
	}
	c.IdleAfter = max(c.IdleAfter, 0)
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 30 * time.Second
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 25 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.ListenFunc == nil {
		c.ListenFunc = net.Listen
	}
	if c.DialFunc == nil {
		c.DialFunc = new(net.Dialer).DialContext
	}
}

// start opens everything, in an order in which a request finds what it needs.
func (n *Node) start(ctx context.Context) (err error) {
	if n.buckets, err = openBuckets(ctx, n.cfg.Bucket, n.cfg.LeaseBucket); err != nil {
		return err
	}
	identity, err := peer.NewIdentity()
	if err != nil {
		return err
	}
	peerServer, err := n.listenPeer(identity)
	if err != nil {
		return err
	}
	host, err := n.host()
	if err != nil {
		return err
	}
	if err := n.startNode(identity, host); err != nil {
		return err
	}
	if err := n.startGateway(); err != nil {
		return err
	}
	if err := n.listenPublic(); err != nil {
		return err
	}
	if err := n.listenAdmin(); err != nil {
		return err
	}
	n.cfg.Log.Info("listening", "public", n.addrs.Listen, "peer", n.addrs.Peer, "admin", n.addrs.Admin, "name", n.cfg.Name)
	n.node.Start()
	peerServer()
	for _, s := range n.servers {
		go s.serve()
	}
	return nil
}

func (n *Node) startNode(identity *peer.Identity, host node.Host) (err error) {
	n.peers = peer.NewClient(peer.ClientOptions{
		Identity: identity, Self: n.self, Dial: n.cfg.DialFunc, DialTimeout: n.dialTimeout(),
	})
	record, err := n.openTrace()
	if err != nil {
		return err
	}
	n.node, err = node.New(node.Config{
		Cells: n.buckets.cells, Lease: n.buckets.lease, Leases: n.buckets.leases,
		Name: n.cfg.Name, Zone: n.cfg.Zone, TTL: n.cfg.LeaseTTL,
		Contact: core.Contact{Addr: n.addrs.Peer, Key: identity.Key(), Protocol: PeerProtocol},
		Probe:   n.peers.Probe, Host: host,
		FailoverWait: n.cfg.FailoverWait, IdleAfter: n.cfg.IdleAfter,
		MaxCells: n.cfg.MaxCells, MaxActivations: n.cfg.MaxActivations, MaxReleases: n.cfg.MaxReleases,
		MaxQueue: n.cfg.MaxQueue, RequestTimeout: n.cfg.RequestTimeout, DrainTimeout: n.cfg.DrainTimeout,
		Log: n.cfg.Log, Wall: wall.Now, Trace: record,
	})
	return err
}

// dialTimeout bounds a connection to a peer: a sixth of the TTL where it is
// known already, so that an owner that is cut off is noticed within it.
func (n *Node) dialTimeout() time.Duration {
	if n.cfg.LeaseTTL == 0 {
		return time.Second
	}
	return min(max(n.cfg.LeaseTTL/6, 200*time.Millisecond), 2*time.Second)
}

// self is this node's id, for those who were made before the node.
func (n *Node) self() core.NodeID {
	if n.node == nil {
		return ""
	}
	return n.node.ID()
}

// ID is the node's id; empty until it has chosen one.
func (n *Node) ID() string { return string(n.self()) }

// Addrs are the addresses bound.
func (n *Node) Addrs() Addrs { return n.addrs }

// Ready is closed once the node holds its lease and serves.
func (n *Node) Ready() <-chan struct{} { return n.node.Ready() }

// Done is closed when the session is over: drained, fenced, or failed to start.
// The last answers may still be on their way; Shutdown waits for them.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why the session is over; nil before, and after a drain that settled
// everything. It wraps ErrFenced or ErrDrainTimeout where one applies.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.err
	default:
		return nil
	}
}

// Handler serves public requests: it runs each on its cell, here or at the
// owner, by Config.Route.
func (n *Node) Handler() http.Handler { return n.gateway }

// Shutdown drains: no new cell is claimed, owned cells are released as they
// fall idle, requests in flight finish, then the lease is given up and the
// listeners are closed. It returns when that is done, or Config.DrainTimeout or
// ctx has ended first; it may be called again, also after the end.
func (n *Node) Shutdown(ctx context.Context) error {
	if n.node.Drain() {
		n.cfg.Log.Info("draining", "node", n.ID(), "at_most", n.cfg.DrainTimeout)
	}
	select {
	case <-n.closed:
		return n.err
	case <-ctx.Done():
		return fmt.Errorf("shutdown: %w", context.Cause(ctx))
	}
}

// watch closes everything when the session ends. Whoever waits for Done hears of
// a fence first.
func (n *Node) watch() {
	<-n.node.Done()
	n.err = n.node.Err()
	close(n.done)
	n.closeTrace()
	patience := 2 * time.Second
	switch {
	case errors.Is(n.err, ErrFenced):
		patience = 50 * time.Millisecond // the process is to end within 100
	case n.err != nil:
		patience = 200 * time.Millisecond
	}
	if n.err == nil {
		n.cfg.Log.Info("drained", "node", n.ID())
	}
	n.finish(patience)
	n.closeAll()
	close(n.closed)
}

// sweep removes the records of nodes long dead while this one lives.
func (n *Node) sweep() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-n.done
		cancel()
	}()
	select {
	case <-n.node.Ready():
	case <-n.done:
		return
	}
	s := sweep.Sweeper{
		Leases: n.buckets.leases, Node: n.self, Clock: node.NewBootClock().Now, Wall: wall.Now, Log: n.cfg.Log,
	}
	s.Run(ctx)
}

// finish lets the last answers, which may be errors, reach their clients.
func (n *Node) finish(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range n.servers {
		wg.Go(func() { s.shutdown(ctx) })
	}
	wg.Wait()
}

func (n *Node) closeAll() {
	n.closeTrace()
	for _, s := range n.servers {
		s.close()
	}
	if n.peers != nil {
		n.peers.Close()
	}
	if n.app != nil {
		n.app.Close()
	}
	n.buckets.close()
}
