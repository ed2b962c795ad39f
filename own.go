package tenure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// Ownership is one epoch of a cell, owned by this process until Context ends.
// It pins the cell: an owned cell is never evicted as idle. Within one node it
// does not exclude others: two Acquires of one cell both succeed, at the same
// epoch.
type Ownership struct {
	node  *Node
	cell  core.CellName
	epoch core.Epoch
	call  *node.Call
	once  sync.Once
}

// Acquire waits until this node owns the cell, or ctx ends. While another live
// node owns it, its record is read every third of a TTL.
func (n *Node) Acquire(ctx context.Context, cell string) (*Ownership, error) {
	for {
		own, err := n.acquire(ctx, cell, false)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.passing() {
			return own, err
		}
		if n.sleep(ctx, min(max(e.RetryAfter, 100*time.Millisecond), 5*time.Second)) != nil {
			return nil, err
		}
	}
}

// TryAcquire is Acquire that does not wait for another node to let go: it fails
// with an *Error with CodeOwned.
func (n *Node) TryAcquire(ctx context.Context, cell string) (*Ownership, error) {
	return n.acquire(ctx, cell, true)
}

// passing: the same may succeed later.
func (e *Error) passing() bool {
	switch core.Code(e.Code) {
	case core.CodeNodeUnavailable, core.CodeStoreUnavailable, core.CodeAcquireFailed, core.CodeNoCapacity,
		core.CodeOwnerUnreachable, core.CodeActivationFailed, core.CodePeerIncompatible, core.CodeTimeout:
		return true
	}
	return false
}

func (n *Node) acquire(ctx context.Context, cell string, try bool) (*Ownership, error) {
	name := core.CellName(cell)
	if err := name.Check(); err != nil {
		return nil, &Error{Code: CodeBadCellName, Cell: cell, Detail: err.Error()}
	}
	timeout := time.Hour // of one attempt
	if try {
		timeout = n.cfg.RequestTimeout
	}
	// The ownership outlives the context that it was acquired with.
	call := n.node.Begin(context.WithoutCancel(ctx), node.Request{Cell: name, Own: true, Try: try, Timeout: timeout})
	switch e := call.Next(ctx).(type) {
	case core.Dispatch:
		return &Ownership{node: n, cell: name, epoch: e.Epoch, call: call}, nil
	case core.Fail:
		call.Done()
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("acquire %s: %w", cell, context.Cause(ctx))
		case n.node.Err() != nil:
			return nil, fmt.Errorf("acquire %s: %w", cell, n.node.Err())
		}
		return nil, failure(name, e.Failure)
	default:
		panic(fmt.Sprintf("tenure: %T answers an acquisition", e))
	}
}

// Epoch is the fencing token: every later owner of the cell has a higher one.
func (o *Ownership) Epoch() uint64 { return uint64(o.epoch) }

// Cell is the cell's name.
func (o *Ownership) Cell() string { return string(o.cell) }

// Context ends before authority does, when the node drains, and with Release;
// context.Cause says why.
func (o *Ownership) Context() context.Context { return o.call.Context() }

// Verify reads the ownership record and returns nil if, at some instant after
// the call began, this node was the owner of record at this epoch.
func (o *Ownership) Verify(ctx context.Context) error {
	rec, found, err := o.node.node.Owner(ctx, o.cell)
	switch {
	case err != nil:
		return err
	case !found || rec.Node != o.node.node.ID() || rec.Epoch != o.epoch:
		return &Error{Code: string(core.CodeOwnershipUnverified), Cell: string(o.cell), Owner: string(rec.Node), Epoch: uint64(rec.Epoch),
			Detail: fmt.Sprintf("epoch %d is no longer this node's", o.epoch)}
	}
	return nil
}

// Release ends the ownership and waits until the cell is published as unowned,
// or ctx ends; it is released all the same. Whatever acts as owner must have
// stopped before. If other requests still run on the cell here, it is released
// after them. A second call only waits.
func (o *Ownership) Release(ctx context.Context) error {
	n := o.node.node
	o.once.Do(func() {
		o.call.Done()
		n.Evict(o.cell)
	})
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		var v core.CellView
		err := n.View(ctx, func(s *core.State) { v, _ = s.Cell(o.cell) })
		switch {
		case errors.Is(err, node.ErrOver) && n.Err() == nil:
			return nil // drained
		case err != nil:
			return fmt.Errorf("release %s: %w", o.cell, err)
		case v.Epoch != o.epoch || !v.Local && v.Phase != "deactivating" && v.Phase != "releasing":
			return nil
		}
		if err := o.node.sleep(ctx, pause); err != nil {
			return fmt.Errorf("release %s: %w", o.cell, err)
		}
	}
}

// Location says who owns a cell, as the bucket has it.
type Location struct {
	Cell string
	// Node is empty while the cell is unowned. It may be dead.
	Node  string
	Epoch uint64
	// Addr is the node's peer address; empty if it has no lease record.
	Addr string
	// Local: it is this very node.
	Local bool
}

// Locate reads who owns a cell, without taking it.
func (n *Node) Locate(ctx context.Context, cell string) (Location, error) {
	name := core.CellName(cell)
	if err := name.Check(); err != nil {
		return Location{}, &Error{Code: CodeBadCellName, Cell: cell, Detail: err.Error()}
	}
	l := Location{Cell: cell}
	rec, _, err := n.node.Owner(ctx, name)
	if err != nil {
		return l, err
	}
	l.Node, l.Epoch, l.Local = string(rec.Node), uint64(rec.Epoch), rec.Node != "" && rec.Node == n.node.ID()
	if rec.Node == "" {
		return l, nil
	}
	lease, err := n.node.Lease(ctx, rec.Node)
	if err != nil && !errors.Is(err, bucket.ErrNotExist) {
		return l, err
	}
	l.Addr = lease.Addr
	return l, nil
}

func (n *Node) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.node.Done():
		return node.ErrOver
	}
}
