package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Request is one request for a cell.
type Request struct {
	Cell      core.CellName // checked by the caller
	Forwarded bool          // by a peer
	Own, Try  bool          // see core.Arrive
	Timeout   time.Duration // until its answer begins
}

// Call is one request in the hands of the core. Its methods are for one
// goroutine at a time, but for Ready, which another one may call once Context
// has ended.
type Call struct {
	node    *Node
	id      core.RequestID
	request Request
	effects chan core.Effect
	ctx     context.Context
	cancel  context.CancelCauseFunc
	failure atomic.Pointer[core.Fail] // set before ctx ends for it
	begun   bool                      // the request was handed to the core
}

// ErrAborted is the cause of a call's context when the core broke it off; the
// cause also says why.
var ErrAborted = errors.New("aborted")

// ErrDone is the cause of a call's context after Done.
var ErrDone = errors.New("done")

// Begin makes a call of a request; its first Next hands it to the core. Done
// must be called at its end.
func (n *Node) Begin(ctx context.Context, r Request) *Call {
	c := &Call{node: n, id: core.RequestID(n.lastCall.Add(1)), request: r, effects: make(chan core.Effect, 4)}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// arrive hands the request to the core.
func (c *Call) arrive() {
	c.begun = true
	if !closed(c.node.ready) {
		// Nothing is decided before the buckets were tested.
		c.effects <- core.Fail{ID: c.id, Failure: notReady}
		return
	}
	r := c.request
	c.node.arrive(c, core.Arrive{
		ID: c.id, Cell: r.Cell, Forwarded: r.Forwarded, Own: r.Own, Try: r.Try, Deadline: core.Time(r.Timeout),
	})
}

var (
	notReady = core.Failure{Code: core.CodeNodeUnavailable, RetryAfter: core.Time(time.Second), Detail: "this node does not hold its lease yet"}
	ended    = core.Failure{Code: core.CodeNodeUnavailable, Detail: "this node's session is over"}
	left     = core.Failure{Detail: "the caller went away"}

	leftRunning = core.Failure{Ran: true, Detail: left.Detail}
)

// Context ends when the core failed or aborted the call, when the caller's
// context ends, and with Done.
func (c *Call) Context() context.Context { return c.ctx }

// Next waits for the core's next decision: a core.Dispatch, core.Forward or
// core.Fail. A Dispatch was compared with the clock just now: the caller must
// begin it at once.
func (c *Call) Next(ctx context.Context) core.Effect {
	if !c.begun {
		c.arrive()
	}
	for {
		decided := c.decided(ctx)
		switch e := decided.(type) {
		case core.Dispatch:
			now := c.node.clock.Now()
			switch {
			case c.ctx.Err() != nil: // after the reading, where this may have been stopped while all ended
				return c.gone()
			case now < e.NotAfter:
				return decided
			}
			c.node.send(core.Late{ID: c.id})
		case nil:
			if ctx.Err() == nil && c.ctx.Err() == nil {
				return core.Fail{ID: c.id, Failure: ended}
			}
			return c.gone()
		default:
			return decided
		}
	}
}

// gone is the end of a call that was failed or broken off, or whose caller
// left, before it began.
func (c *Call) gone() core.Effect {
	c.node.send(core.Gone{ID: c.id})
	if f := c.failure.Load(); f != nil {
		return *f
	}
	f := left
	if cause := context.Cause(c.ctx); errors.Is(cause, ErrAborted) {
		f = core.Failure{Code: core.CodeNodeUnavailable, Detail: cause.Error()}
	}
	return core.Fail{ID: c.id, Failure: f}
}

// Ready says that the answer is there, and waits until it may be let out
// (true), or must not (false, and why). A true was compared with the clock just
// now: the caller must begin the answer at once.
func (c *Call) Ready(ctx context.Context) (core.Failure, bool) {
	if c.ctx.Err() != nil {
		// Failed, or the client left: not an answer, which would also say that
		// the peer it was sent to lives.
		return c.lost(), false
	}
	c.node.send(core.Ready{ID: c.id})
	for {
		switch e := c.decided(ctx).(type) {
		case core.Answer:
			now := c.node.clock.Now()
			switch {
			case c.ctx.Err() != nil: // as in Next
				return c.lost(), false
			case now < e.NotAfter:
				return core.Failure{}, true
			}
			c.node.send(core.Late{ID: c.id})
		case core.Fail:
			return e.Failure, false
		case nil:
			if ctx.Err() == nil {
				return core.Failure{Code: core.CodeAuthorityLost, Ran: true, Detail: ended.Detail}, false
			}
			return leftRunning, false
		}
	}
}

// lost is why a call that was dispatched or forwarded has no answer, though none
// was refused to it.
func (c *Call) lost() core.Failure {
	if f := c.failure.Load(); f != nil {
		return f.Failure
	}
	if cause := context.Cause(c.ctx); errors.Is(cause, ErrAborted) {
		return core.Failure{Code: core.CodeAuthorityLost, Ran: true, Detail: cause.Error()}
	}
	return leftRunning
}

// ForwardFailed says how a forward failed; Next has what follows.
func (c *Call) ForwardFailed(how core.ForwardFailure, refusal core.Failure) {
	c.node.send(core.ForwardFailed{ID: c.id, How: how, Refusal: refusal})
}

// Done ends the call.
func (c *Call) Done() {
	c.cancel(ErrDone)
	c.node.send(core.Done{ID: c.id})
}
