package tenure

import (
	"errors"
	"time"

	"github.com/tenure-go/tenure/internal/trace"
	"github.com/tenure-go/tenure/internal/wall"
	"github.com/tenure-go/tenure/node"
)

// openTrace begins the trace, and returns what the node calls with each decision.
func (n *Node) openTrace() (record func(node.Decision), err error) {
	if n.cfg.Trace == "" {
		return nil, nil
	}
	n.trace, err = trace.Open(trace.Options{
		Path: n.cfg.Trace, Name: n.cfg.Name, Version: Version(), Wall: wall.Now,
		Report: func(err error) { n.cfg.Log.Warn("the trace is cut", "error", err) },
	})
	if err != nil {
		return nil, err
	}
	return func(d node.Decision) { n.trace.Record(d.State, d.Now, d.Event, d.Effects) }, nil
}

// closeTrace writes the end of the trace. A fenced node has no time to lose.
func (n *Node) closeTrace() {
	if n.trace == nil {
		return
	}
	wait := 2 * time.Second
	if errors.Is(n.err, ErrFenced) {
		wait = 30 * time.Millisecond
	}
	if err := n.trace.Close(wait); err != nil {
		n.cfg.Log.Warn("the trace is cut", "error", err)
	}
}
