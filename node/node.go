package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tenure-go/tenure/core"
)

// How a session ends, other than by a drain that settled everything. Node.Err
// returns errors that wrap these.
var (
	// ErrFenced: authority was lost; nothing may be served any more.
	ErrFenced = errors.New("fenced")
	// ErrDrainTimeout: the drain ran out of time.
	ErrDrainTimeout = errors.New("the drain ran out of time; what was not settled is left to expire with the lease")
)

// Node is one session, over for good when Done is closed.
type Node struct {
	cfg    Config
	clock  Clock
	state  *core.State // the deciding goroutine's
	timer  Timer
	wakeAt core.Time

	inputs      chan input
	leaseEvents chan core.Event
	pending     []core.Event // completions that the deciding goroutine made itself
	calls       map[core.RequestID]*Call
	lastCall    atomic.Uint64

	ctx     context.Context // ends with the session
	cancel  context.CancelCauseFunc
	decides chan struct{} // closed when the deciding goroutine begins
	ready   chan struct{}
	over    chan struct{}
	err     error // valid when over is closed

	hosted hosted
	logs   chan func()
	lost   atomic.Int64 // log lines dropped

	seen struct { // for display
		sync.Mutex
		node     core.NodeID
		status   Status
		fleet    string
		lastErr  error // of the last start-up attempt, or lease operation
		deadline core.Time
	}
}

// New prepares a session. Once started it tests the buckets, adopts the fleet's
// settings and then creates its lease, trying for ever. Ready is closed when the
// lease is held, Done when the session is over; Err then says why.
func New(cfg Config) (*Node, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, clock: cfg.Clock, wakeAt: never,
		inputs: make(chan input, 1024), leaseEvents: make(chan core.Event, 16),
		calls:   map[core.RequestID]*Call{},
		decides: make(chan struct{}), ready: make(chan struct{}), over: make(chan struct{}),
		logs: make(chan func(), 1024),
	}
	n.hosted.cells = map[core.CellName]hostedCell{}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	return n, nil
}

// Start begins the session. It is called once.
func (n *Node) Start() {
	go n.writeLogs()
	go n.begin()
}

// begin prepares the session, then becomes its deciding goroutine.
func (n *Node) begin() {
	ttl, err := n.prepare()
	if err != nil {
		n.stop(err)
		return
	}
	n.state, err = core.New(n.cfg.settings(ttl))
	if err != nil {
		n.stop(err)
		return
	}
	n.timer = n.clock.NewTimer()
	defer n.timer.Close()
	close(n.decides)
	n.step(input{event: core.Start{}})
	for n.err == nil {
		n.step(n.take())
	}
	n.stop(n.err)
}

// step lets the core take one event and carries out what it decides.
func (n *Node) step(in input) {
	if in.view != nil {
		in.view(n.state)
		return
	}
	if in.call != nil {
		n.calls[in.call.id] = in.call
	}
	now := n.clock.Now() // when the event is taken, not when it was sent
	effects := n.state.Step(now, in.event)
	for _, e := range effects {
		e.Do(executor{n})
	}
	if done, ok := in.event.(core.Done); ok {
		delete(n.calls, done.ID)
	}
	if n.cfg.Trace != nil {
		n.cfg.Trace(Decision{Now: now, Event: in.event, Effects: effects})
	}
	if at := n.state.Next(); at != n.wakeAt {
		n.wakeAt = at
		n.timer.Set(at)
	}
	n.publish()
}

// publish notes what others may look at, and closes Ready.
func (n *Node) publish() {
	if end := n.state.AuthorityEnds(); end != n.seen.deadline {
		n.seen.Lock()
		n.seen.node, n.seen.deadline = n.state.Node(), end
		n.seen.Unlock()
	}
	if n.state.Held() && !n.isReady() {
		n.logf(slog.LevelInfo, "lease held: ready", "node", n.state.Node())
		close(n.ready)
	}
}

func (n *Node) isReady() bool { return closed(n.ready) }

// stop is the end of the session, once.
func (n *Node) stop(err error) {
	n.cancel(err)
	if errors.Is(err, errDrained) || errors.Is(err, errStopped) {
		err = nil
	}
	n.err = err
	close(n.over)
	n.endHosted()
}

// Ends of a session that are no errors.
var (
	errDrained = errors.New("drained")
	errStopped = errors.New("stopped before it held a lease")
)

// ErrOver is returned by what needs a session that is not over.
var ErrOver = errors.New("the node's session is over")

// ErrPreparing is returned by View while the buckets are being tested: nothing
// is decided yet.
var ErrPreparing = errors.New("the node has not passed its start-up test yet")

// Ready is closed once the node holds its lease.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Done is closed when the session is over: fenced, drained or failed to start.
// Authority has ended, or was given back, before.
func (n *Node) Done() <-chan struct{} { return n.over }

// Err is why the session is over; nil before, and after a drain that settled
// everything.
func (n *Node) Err() error {
	if !closed(n.over) {
		return nil
	}
	return n.err
}

// ID is the node's id; empty before it chose one.
func (n *Node) ID() core.NodeID {
	n.seen.Lock()
	defer n.seen.Unlock()
	return n.seen.node
}

// Drain begins to give everything up, bounded by the drain timeout; Done is
// closed at its end. It may be called more than once.
func (n *Node) Drain() {
	if !closed(n.decides) {
		n.cancel(errStopped) // ends the preparation
	}
	n.send(input{event: core.Drain{}})
}

// Evict asks for a cell to be released as soon as nothing runs on it.
func (n *Node) Evict(cell core.CellName) { n.send(input{event: core.Evict{Cell: cell}}) }

// View runs f with the state on the deciding goroutine and waits for it; an
// error says that the session is over, or the loop did not turn before ctx
// ended.
func (n *Node) View(ctx context.Context, f func(*core.State)) error {
	if !closed(n.decides) {
		return ErrPreparing
	}
	done := make(chan struct{})
	go n.send(input{view: func(s *core.State) { f(s); close(done) }})
	return n.await(ctx, done)
}

func (n *Node) endOfSession(why core.Reason) error {
	switch {
	case why.Fenced():
		return fmt.Errorf("%w: %s", ErrFenced, why)
	case why == core.ReasonDrainTimeout:
		return ErrDrainTimeout
	}
	return errDrained
}
