package tenure

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Config describes one node. The zero value of a field is its default.
type Config struct {
	// Bucket is where ownership records live: a URL as OpenBucket has them.
	// Required.
	Bucket string
	// LeaseBucket is where node leases live, by a client of its own; default:
	// Bucket (for sqlite:PATH the second file PATH-leases).
	LeaseBucket string

	// Name begins the node's id; default: the host name made safe.
	Name string
	// Zone is for people and placement.
	Zone string
	// LeaseTTL is the fleet's; 0 adopts the fleet's, or 10s for a new fleet.
	// A value that differs from the fleet's is an error. At least 1s, and 5s
	// for leases in Google Cloud Storage.
	LeaseTTL time.Duration

	// Listen is the public HTTP address. Empty: none is opened, and the
	// program serves Node.Handler itself.
	Listen string
	// PeerListen is the address of the peer listener; default 127.0.0.1:0.
	PeerListen string
	// Advertise is how peers reach it; default: the address bound.
	Advertise string
	// AdminListen is the operator's HTTP address, or unix:PATH. Empty: none.
	AdminListen string
	// AdminToken is the bearer token that the admin address asks for, but for
	// its two health paths. Required unless AdminListen is loopback or unix.
	AdminToken string

	// Host runs cells in this process. Exactly one of Host and App is used;
	// with neither, a cell can only be acquired.
	Host Host
	// App is the application that requests are passed to: http://host:port or
	// unix:PATH. "demo" is the built-in demonstration.
	App string
	// Route says how a request names its cell; default path:/cells/{cell}/.
	Route string

	// FailoverWait is how long a request may wait for an owner that cannot be
	// reached and is not provably dead, instead of failing at once.
	FailoverWait time.Duration
	// IdleAfter is how long a cell stays without a request; default 10m;
	// negative: for ever.
	IdleAfter time.Duration
	// MaxCells bounds resident cells; 0: no limit.
	MaxCells int
	// MaxActivations bounds cells being resolved, claimed and activated at
	// once; default 8 per CPU.
	MaxActivations int
	// MaxReleases bounds cells being given up at once; default 128.
	MaxReleases int
	// MaxQueue bounds requests that wait for an owner; default 10000.
	MaxQueue int
	// RequestTimeout is how long a request may wait for its answer to begin;
	// default 30s.
	RequestTimeout time.Duration
	// DrainTimeout bounds Shutdown; default 25s.
	DrainTimeout time.Duration

	// Log receives one line per thing that an operator would act on; default
	// slog.Default().
	Log *slog.Logger

	// Trace is a file in which every decision is recorded, for "tenure replay". What
	// is there is kept as FILE.1, up to FILE.3. Empty: none.
	Trace string

	// ListenFunc, DialFunc replace net.Listen and net.Dialer.DialContext for
	// every listener and peer connection; for tests.
	ListenFunc func(network, addr string) (net.Listener, error)
	DialFunc   func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Host runs cells inside this process. Its methods are called concurrently for
// different cells, never for one cell.
type Host interface {
	// Activate prepares the cell and returns what serves its requests. It is
	// called once per epoch, before the first request of that epoch; ctx ends
	// when the activation has taken too long or authority is gone. An error
	// gives the cell up again.
	Activate(ctx context.Context, a Activation) (http.Handler, error)
	// Deactivate says that the cell is no longer served here at that epoch.
	// Nothing runs on it any more, unless authority was lost: then it is best
	// effort, and requests may still be returning.
	Deactivate(ctx context.Context, d Deactivation)
}

// Activation is the beginning of one epoch of a cell on this node.
type Activation struct {
	Cell  string
	Epoch uint64
	// Prior is the node that owned it before, empty if it was unowned.
	Prior string
	// Takeover: Prior died without releasing it; what it did last may still
	// be arriving at other systems.
	Takeover bool
}

// Deactivation is its end.
type Deactivation struct {
	Cell   string
	Epoch  uint64
	Reason string
}
