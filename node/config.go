package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// Config is everything that a Node depends on. Fields without a default are
// required.
type Config struct {
	// Cells holds ownership records. Lease and Leases both hold node leases:
	// Lease carries nothing but this node's own, so that a renewal never
	// queues behind anything; Leases reads and lists those of the others.
	Cells, Lease, Leases bucket.Bucket

	// Name begins the node's id; Zone is for display and placement.
	Name, Zone string
	// TTL is the fleet's, or 0 to adopt it; [DefaultTTL] for a new fleet.
	TTL time.Duration
	// Contact is how peers reach this node.
	Contact core.Contact
	// Probe asks a peer for its id; nil error if that very session answered.
	Probe func(ctx context.Context, node core.NodeID, c core.Contact) error
	// Host runs cells in this process; nil: cells need no preparation.
	Host Host

	FailoverWait   time.Duration
	IdleAfter      time.Duration // 0: for ever
	MaxCells       int           // 0: no limit
	MaxActivations int           // default 8 per CPU
	MaxReleases    int           // default 128
	MaxQueue       int           // default 10000
	// RequestTimeout bounds an activation too. Default 30s.
	RequestTimeout time.Duration
	DrainTimeout   time.Duration // default 25s

	// Log receives one line per thing that an operator would act on. It is
	// called from a goroutine of its own; lines beyond a bound are dropped
	// rather than waited for.
	Log *slog.Logger

	Clock  Clock            // default NewBootClock
	Wall   func() time.Time // default time.Now; for display only
	Random io.Reader        // default crypto/rand
	Go     func(func())     // starts asynchronous work; default a goroutine
	Trace  func(Decision)   // sees every step, in order; it must not block
	// Park, in a simulation, stands in for whatever would block: it returns
	// once ready has returned true, and lets other work go on before.
	Park   func(ready func() bool)
	Limits func(c *core.Config) // changes settings of the core, for tests
}

// Decision is one step of the core. Effects, and State, which is as the step left
// it, are valid during the call only.
type Decision struct {
	State   *core.State
	Now     core.Time
	Event   core.Event
	Effects []core.Effect
}

// Host runs cells in this process. It is called concurrently for different
// cells; for one cell each call begins after the one before has returned.
type Host interface {
	// Activate prepares a cell at an epoch and returns what serves it.
	Activate(ctx context.Context, a core.Activate) (http.Handler, error)
	// Deactivate ends what Activate prepared, also after a failed Activate.
	Deactivate(ctx context.Context, d core.Deactivate)
}

// Bounds of a lease's TTL, and the one of a new fleet.
const (
	DefaultTTL = 10 * time.Second
	MinTTL     = time.Second
	MaxTTL     = 24 * time.Hour
)

func (c *Config) setDefaults() error {
	if c.Cells == nil || c.Lease == nil || c.Leases == nil {
		return errors.New("node: a bucket is missing")
	}
	def(&c.MaxActivations, 8*runtime.GOMAXPROCS(0))
	def(&c.MaxReleases, 128)
	def(&c.MaxQueue, 10000)
	def(&c.RequestTimeout, 30*time.Second)
	def(&c.DrainTimeout, 25*time.Second)
	def(&c.Log, slog.Default())
	if c.Clock == nil {
		c.Clock = NewBootClock()
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Go == nil {
		c.Go = func(f func()) { go f() }
	}
	return nil
}

// checkLease finds out now whether this node's lease could be written: what is
// in it comes from the user.
func (c *Config) checkLease() error {
	rec := wire.LeaseRecord{
		Lease: core.Lease{Node: "node-0123456789abcdef", Generation: "g", Seq: 1, TTL: core.Time(DefaultTTL), Contact: c.Contact},
		Name:  c.Name, Zone: c.Zone,
	}
	if err := rec.Check(); err != nil {
		return fmt.Errorf("this node's lease would not be a valid record: %w", err)
	}
	return nil
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// settings derives the core's from the fleet's TTL; core.Time is nanoseconds
// here. docs/protocol.md gives the reasons for each fraction.
func (c *Config) settings(ttl time.Duration) core.Config {
	t := core.Time(ttl)
	cfg := core.Config{
		TTL: t, Slack: t / 20, Renew: t / 3, LeaseDeadline: t / 6, RetryStep: t / 100,
		OpDeadline:       core.Time(min(max(ttl/2, time.Second), 5*time.Second)),
		DialDeadline:     core.Time(min(max(ttl/6, 200*time.Millisecond), 2*time.Second)),
		ActivateDeadline: core.Time(c.RequestTimeout), DeactivateDeadline: core.Time(10 * time.Second),
		DrainDeadline: core.Time(c.DrainTimeout),
		Rounding:      core.Time(c.Leases.Traits().Rounding), Allowance: core.Time(time.Second),
		IdleAfter: core.Time(c.IdleAfter), FailoverWait: core.Time(c.FailoverWait),
		MaxCells: c.MaxCells, MaxActivations: c.MaxActivations, MaxReleases: c.MaxReleases,
		MaxQueue: c.MaxQueue, MaxRoutes: 100_000, MaxPeers: 4096,
		Protocol: c.Contact.Protocol,
	}
	if c.Limits != nil {
		c.Limits(&cfg)
	}
	return cfg
}
