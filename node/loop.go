package node

import (
	"context"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Every select of this package is in this file.

// park waits in a simulation for what the select after it waits for; elsewhere
// it does nothing.
func (n *Node) park(ready func() bool) {
	if n.cfg.Park != nil && !ready() {
		n.cfg.Park(ready)
	}
}

// queueLog queues a line; false if too many wait.
func (n *Node) queueLog(f func()) bool {
	select {
	case n.logs <- f:
		return true
	default:
		return false
	}
}

// nextLog waits for a line; nil when the session is over and none is left.
func (n *Node) nextLog() func() {
	select {
	case f := <-n.logs:
		return f
	default:
	}
	select {
	case f := <-n.logs:
		return f
	case <-n.over:
		return nil
	}
}

// decided waits for what the core decides on a call; nil if ctx ends first, or
// the session without a decision.
func (c *Call) decided(ctx context.Context) core.Effect {
	select {
	case e := <-c.effects:
		return e
	default:
	}
	if c.node.cfg.Park != nil { // else the closure would cost every call
		c.node.park(func() bool { return len(c.effects) > 0 || ctx.Err() != nil || closed(c.node.over) })
	}
	select {
	case e := <-c.effects:
		return e
	case <-ctx.Done():
	case <-c.node.over:
	}
	select { // the last effects come before the end
	case e := <-c.effects:
		return e
	default:
	}
	if f := c.failure.Load(); f != nil { // another goroutine took it
		return *f
	}
	return nil
}

// deliver hands an effect to its call. The channel has room for all that can
// be under way, so a full one is a broken invariant.
func (c *Call) deliver(e core.Effect) {
	select {
	case c.effects <- e:
	default:
		panic("node: a call was given more decisions than it can be waiting for")
	}
}

// waitFor waits for a channel to close, or ctx to end first.
func (n *Node) waitFor(ctx context.Context, c <-chan struct{}) error {
	n.park(func() bool { return closed(c) || ctx.Err() != nil })
	select {
	case <-c:
		return nil
	case <-ctx.Done():
	}
	if closed(c) {
		return nil
	}
	return context.Cause(ctx)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// await waits for a channel to close; an error says that ctx, or the session,
// ended first.
func (n *Node) await(ctx context.Context, c <-chan struct{}) error {
	n.park(func() bool { return closed(c) || ctx.Err() != nil || closed(n.over) })
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.over:
		return ErrOver
	}
}

// pause waits; an error says that the session ended first.
func (n *Node) pause(d time.Duration) error {
	ctx, cancel := n.until(n.clock.Now() + core.Time(d))
	defer cancel()
	n.park(func() bool { return ctx.Err() != nil })
	<-ctx.Done()
	return context.Cause(n.ctx)
}
