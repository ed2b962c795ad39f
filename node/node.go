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
	// ErrDrained: the session drained. It is the cause where an ownership ends
	// by it, and no error of the session.
	ErrDrained = errors.New("drained")
	// ErrDrainTimeout: the drain ran out of time.
	ErrDrainTimeout = errors.New("the drain ran out of time; what was not settled is left to expire with the lease")
)

// Node is one session, over for good when Done is closed.
type Node struct {
	cfg   Config
	clock Clock

	// mu is held by whoever decides: a step of the core, with its effects,
	// which never block. There is no queue of events; a goroutine that has one
	// takes the lock, so that a warm request costs no change of goroutine.
	mu      sync.Mutex
	state   *core.State // nil until the buckets were tested
	timer   Timer
	wakeAt  core.Time
	pending []core.Event // completions that the executor made itself
	calls   map[core.RequestID]*Call
	err     error // why the session is over; valid when over is closed

	// urgent are completions of operations on the own lease. Whoever decides
	// takes them first, so that a renewal waits for nobody who waits for mu.
	urgent struct {
		sync.Mutex
		events []core.Event
	}

	lastCall atomic.Uint64
	drains   atomic.Bool
	ctx      context.Context // ends with the session
	cancel   context.CancelCauseFunc
	decides  chan struct{} // closed when the core can be asked
	ready    chan struct{}
	over     chan struct{}

	hosted hosted
	doubt  cellsDoubt
	logs   chan func()  // nil: nobody reads the log
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
	if err := cfg.checkLease(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, clock: cfg.Clock, wakeAt: never,
		calls:   map[core.RequestID]*Call{},
		decides: make(chan struct{}), ready: make(chan struct{}), over: make(chan struct{}),
	}
	if cfg.Log.Enabled(context.Background(), slog.LevelError) {
		n.logs = make(chan func(), 1024)
	}
	n.hosted.cells = map[core.CellName]hostedCell{}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	return n, nil
}

// Start begins the session. It is called once.
func (n *Node) Start() {
	if n.logs != nil {
		n.cfg.Go(n.writeLogs)
	}
	n.cfg.Go(n.begin)
}

// begin prepares the session. Events drive it from there on.
func (n *Node) begin() {
	ttl, err := n.prepare()
	var state *core.State
	if err == nil {
		state, err = core.New(n.cfg.settings(ttl))
	}
	n.lock()
	if err == nil && n.ctx.Err() != nil { // drained in the meantime
		err = context.Cause(n.ctx)
	}
	if err != nil {
		n.stop(err)
		n.mu.Unlock()
		return
	}
	n.timer = n.clock.NewTimer(func() { n.send(core.Tick{}) })
	n.state = state
	n.mu.Unlock()
	close(n.decides)
	n.send(core.Start{})
}

// lock takes mu.
func (n *Node) lock() {
	if n.cfg.Park == nil {
		n.mu.Lock()
	} else if !n.mu.TryLock() {
		n.cfg.Park(n.mu.TryLock)
	}
}

// open is called with mu held, before a decision: it reports whether the core
// can be asked.
func (n *Node) open() bool {
	if n.state == nil {
		return false
	}
	n.decideUrgent()
	return n.err == nil
}

// send has the core decide on an event; false if it cannot any more, or not yet.
func (n *Node) send(ev core.Event) bool {
	n.lock()
	defer n.mu.Unlock()
	if !n.open() {
		return false
	}
	n.decide(n.clock.Now(), ev)
	return true
}

// arrive is send of the event with which a call begins; its Deadline is from
// when it is taken.
func (n *Node) arrive(c *Call, ev core.Arrive) {
	n.lock()
	defer n.mu.Unlock()
	if !n.open() {
		return
	}
	n.calls[c.id] = c
	now := n.clock.Now()
	ev.Deadline += now
	n.decide(now, ev)
}

// sendLease hands over the completion of an operation on the own lease.
func (n *Node) sendLease(ev core.Event) {
	n.urgent.Lock()
	n.urgent.events = append(n.urgent.events, ev)
	n.urgent.Unlock()
	n.lock()
	defer n.mu.Unlock()
	n.decideUrgent()
}

// decideUrgent is called with mu held.
func (n *Node) decideUrgent() {
	n.urgent.Lock()
	events := n.urgent.events
	n.urgent.events = nil
	n.urgent.Unlock()
	for _, ev := range events {
		if n.err == nil && n.state != nil {
			n.decide(n.clock.Now(), ev)
		}
	}
}

// decide is called with mu held: it takes an event, and then what the executor
// had to say to the effects at once.
func (n *Node) decide(now core.Time, ev core.Event) {
	n.step(now, ev)
	for len(n.pending) > 0 && n.err == nil {
		ev := n.pending[0]
		n.pending = append(n.pending[:0], n.pending[1:]...)
		n.step(n.clock.Now(), ev)
	}
}

// step lets the core take one event and carries out what it decides. now is
// when the event was taken: sampled with mu held.
func (n *Node) step(now core.Time, ev core.Event) {
	effects := n.state.Step(now, ev)
	for _, e := range effects {
		e.Do(executor{n})
	}
	if done, ok := ev.(core.Done); ok {
		delete(n.calls, done.ID)
	}
	if n.cfg.Trace != nil {
		n.cfg.Trace(Decision{State: n.state, Now: now, Event: ev, Effects: effects})
	}
	n.wake(ev)
	n.publish()
	if n.err != nil {
		n.stop(n.err)
	}
}

// wake sets the timer if something is due before it fires. One that turns out to
// be early is left alone, since every request would move it and that is a system
// call: it brings an idle Tick, after which it is set anew.
func (n *Node) wake(ev core.Event) {
	at := n.state.Next()
	if _, fired := ev.(core.Tick); fired || at < n.wakeAt {
		n.wakeAt = at
		n.timer.Set(at)
	}
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

// stop is the end of the session, once. It is called with mu held.
func (n *Node) stop(err error) {
	n.cancel(err)
	n.err = err
	if n.timer != nil {
		n.timer.Close()
	}
	close(n.over)
	n.endHosted()
}

// errStopped: an end of the session that is no error.
var errStopped = errors.New("stopped before it held a lease")

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
	if !closed(n.over) || errors.Is(n.err, ErrDrained) || errors.Is(n.err, errStopped) {
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
// closed at its end. It may be called more than once; the first call returns
// true, unless the session is over.
func (n *Node) Drain() bool {
	if !closed(n.decides) {
		n.cancel(errStopped) // ends the preparation
	}
	n.send(core.Drain{})
	return !n.drains.Swap(true) && !closed(n.over)
}

// Evict asks for a cell to be released as soon as nothing runs on it.
func (n *Node) Evict(cell core.CellName) { n.send(core.Evict{Cell: cell}) }

// View runs f with the state while nothing is decided, and waits for it. An
// error says that the session is over, or that nothing could be decided before
// ctx ended; f may then still run later.
func (n *Node) View(ctx context.Context, f func(*core.State)) error {
	if !closed(n.decides) {
		return ErrPreparing
	}
	done := make(chan struct{})
	n.cfg.Go(func() {
		n.lock()
		defer n.mu.Unlock()
		if n.err == nil {
			f(n.state)
			close(done)
		}
	})
	return n.await(ctx, done)
}

// endOf is the error that stands for the reason of an end.
func endOf(why core.Reason) error {
	switch {
	case why.Fenced():
		return fmt.Errorf("%w: %s", ErrFenced, why)
	case why == core.ReasonDrainTimeout:
		return ErrDrainTimeout
	case why == core.ReasonDrain:
		return ErrDrained
	}
	return errors.New(string(why))
}
