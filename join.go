package tenure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/gateway"
	"github.com/tenure-go/tenure/internal/demo"
	"github.com/tenure-go/tenure/node"
	"github.com/tenure-go/tenure/peer"
)

// server is one listener and what serves it.
type server struct {
	serve    func()
	shutdown func(context.Context) error
	close    func()
}

func (n *Node) serveHTTP(l net.Listener, h http.Handler) {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	n.servers = append(n.servers, &server{
		serve: func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				n.cfg.Log.Error("a listener failed", "address", l.Addr().String(), "error", err)
			}
		},
		shutdown: s.Shutdown,
		close:    func() { s.Close(); l.Close() },
	})
}

func (n *Node) listen(what, addr string) (net.Listener, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	l, err := n.cfg.ListenFunc(network, addr)
	switch {
	case err == nil:
		return l, nil
	case network == "unix":
		return n.listenAgain(what, addr, err)
	}
	return nil, fmt.Errorf("%s address: %w; choose another one, or port 0 for any that is free", what, err)
}

// listenAgain takes the place of a process that was killed and left its socket
// behind: nobody answers there.
func (n *Node) listenAgain(what, path string, err error) (net.Listener, error) {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s address: %w", what, err)
	}
	if c, dialed := net.DialTimeout("unix", path, time.Second); dialed == nil {
		c.Close()
		return nil, fmt.Errorf("%s address: %w: another process serves %s", what, err, path)
	} else if !errors.Is(dialed, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%s address: %w", what, err)
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("%s address: remove the socket of a process that is gone: %w", what, err)
	}
	l, err := n.cfg.ListenFunc("unix", path)
	if err != nil {
		return nil, fmt.Errorf("%s address: %w", what, err)
	}
	return l, nil
}

// listenPeer opens the peer listener; what it returns begins to serve it.
func (n *Node) listenPeer(identity *peer.Identity) (func(), error) {
	l, err := n.listen("peer", n.cfg.PeerListen)
	if err != nil {
		return nil, err
	}
	if n.addrs.Peer = n.cfg.Advertise; n.addrs.Peer == "" {
		n.addrs.Peer = l.Addr().String()
	}
	if err := checkAdvertised(n.addrs.Peer); err != nil {
		l.Close()
		return nil, err
	}
	s := peer.NewServer(peer.ServerOptions{
		Identity: identity, Self: n.self, Lookup: n.lookup, Log: n.cfg.Log,
		Handler: func(w http.ResponseWriter, r *http.Request, from core.NodeID) { n.gateway.ServePeer(w, r, from) },
	})
	n.servers = append(n.servers, &server{
		serve:    func() {},
		shutdown: s.Shutdown,
		close:    func() { s.Close(); l.Close() },
	})
	return func() { go s.Serve(l) }, nil
}

// checkAdvertised: an address that means "every interface" reaches nobody.
func checkAdvertised(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("the address that peers reach this node at is %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("the address that peers reach this node at is %q, which is every interface; say which one they can reach (--advertise)", addr)
	}
	return nil
}

func (n *Node) lookup(ctx context.Context, id core.NodeID) (core.Contact, error) {
	rec, err := n.node.Lease(ctx, id)
	return rec.Contact, err
}

// host is what runs cells in this process; nil if an application outside does,
// or nothing.
func (n *Node) host() (node.Host, error) {
	switch {
	case n.cfg.App == "demo":
		return demoHost{}, nil
	case n.cfg.App != "":
		var err error
		n.app, err = gateway.NewApp(n.cfg.App)
		return nil, err
	case n.cfg.Host != nil:
		return userHost{n.cfg.Host}, nil
	}
	return nil, nil
}

// userHost makes a Host the node's.
type userHost struct{ Host }

func (h userHost) Activate(ctx context.Context, a core.Activate) (http.Handler, error) {
	return h.Host.Activate(ctx, Activation{Cell: string(a.Cell), Epoch: uint64(a.Epoch), Prior: string(a.Prior), Takeover: a.Takeover})
}

func (h userHost) Deactivate(ctx context.Context, d core.Deactivate) {
	h.Host.Deactivate(ctx, Deactivation{Cell: string(d.Cell), Epoch: uint64(d.Epoch), Reason: string(d.Reason)})
}

// demoHost runs the built-in demonstration.
type demoHost struct{}

func (demoHost) Activate(_ context.Context, a core.Activate) (http.Handler, error) {
	return demo.New(string(a.Cell), uint64(a.Epoch)), nil
}

func (demoHost) Deactivate(context.Context, core.Deactivate) {}

func (n *Node) startGateway() (err error) {
	n.gateway, err = gateway.New(gateway.Config{
		Decider: decider{n.node}, Peers: peers{n.peers}, Local: n.local,
		Route: n.cfg.Route, Timeout: n.cfg.RequestTimeout, Log: n.cfg.Log,
	})
	return err
}

// local is what serves a cell here at an epoch.
func (n *Node) local(cell core.CellName, epoch core.Epoch) http.Handler {
	switch {
	case n.app != nil:
		return n.app
	case n.cfg.App == "" && n.cfg.Host == nil:
		return http.HandlerFunc(noApplication)
	}
	return n.node.Handler(cell, epoch)
}

func noApplication(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this node has neither a Host nor an App: its cells can only be acquired", http.StatusNotImplemented)
}

// decider makes the node the gateway's.
type decider struct{ n *node.Node }

func (d decider) Self() core.NodeID { return d.n.ID() }

func (d decider) Begin(ctx context.Context, cell core.CellName, forwarded bool, timeout time.Duration) gateway.Call {
	return d.n.Begin(ctx, node.Request{Cell: cell, Forwarded: forwarded, Timeout: timeout})
}

// peers makes the client of peers the gateway's.
type peers struct{ *peer.Client }

func (peers) NotConnected(err error) bool { return peer.NotConnected(err) }

func (n *Node) listenPublic() error {
	if n.cfg.Listen == "" {
		return nil
	}
	l, err := n.listen("public", n.cfg.Listen)
	if err != nil {
		return err
	}
	n.addrs.Listen = l.Addr().String()
	n.serveHTTP(l, n.gateway)
	return nil
}
