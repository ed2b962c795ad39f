package tenure

import (
	"fmt"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// How a node ends. Node.Err and the cause of Ownership.Context wrap these.
var (
	// ErrFenced: authority was lost, and the node is over.
	ErrFenced = node.ErrFenced
	// ErrDrained: the node drains. It ends an Ownership; Node.Err is nil after
	// a drain that settled everything.
	ErrDrained = node.ErrDrained
	// ErrDrainTimeout: Shutdown ran out of time.
	ErrDrainTimeout = node.ErrDrainTimeout
	// ErrReleased is the cause of an Ownership's context after Release.
	ErrReleased = node.ErrDone
)

// Error is why a cell could not be owned or reached.
type Error struct {
	// Code is stable: docs/errors.md lists them.
	Code string
	Cell string
	// Owner is the node that owns the cell, and Epoch its epoch, where known.
	Owner string
	Epoch uint64
	// RetryAfter is when it may succeed; 0 if nothing is known.
	RetryAfter time.Duration
	Detail     string
}

// Error says what happened, to which cell.
func (e *Error) Error() string {
	s := fmt.Sprintf("cell %s: %s", e.Cell, e.Code)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Owner != "" {
		s += fmt.Sprintf(" (owner %s, epoch %d)", e.Owner, e.Epoch)
	}
	return s
}

// Codes of Error that a program may want to tell apart.
const (
	// CodeOwned: another node owns the cell (TryAcquire).
	CodeOwned       = string(core.CodeOwned)
	CodeBadCellName = string(core.CodeBadCellName)
	CodeDraining    = string(core.CodeDraining)
)

func failure(cell core.CellName, f core.Failure) *Error {
	return &Error{
		Code: string(f.Code), Cell: string(cell), Owner: string(f.Node), Epoch: uint64(f.Epoch),
		RetryAfter: time.Duration(f.RetryAfter), Detail: f.Detail,
	}
}
