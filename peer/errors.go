package peer

import (
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/core"
)

var (
	// ErrWrongKey: the address was answered by somebody who does not hold the
	// key that the peer's lease publishes, most often a later session.
	ErrWrongKey = errors.New("the peer showed another key than its lease publishes")
	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("the peer client is closed")
	// ErrNoContact: the lease publishes no address or no key.
	ErrNoContact = errors.New("the peer's lease publishes no address or no key")
)

// Error is why a request to a peer brought no answer of it. Unwrap leads to the
// cause, so that errors.Is finds the context's errors, [ErrWrongKey] and so on.
type Error struct {
	Node core.NodeID
	Addr string
	// Refusal is why the peer's own door turned the request away, before any
	// handler saw it; empty if it did not.
	Refusal Refusal
	Err     error

	// begun: a byte of the request may have reached a peer that did not refuse it.
	begun bool
}

func (e *Error) Error() string {
	switch {
	case e.Refusal != "":
		return fmt.Sprintf("peer %s at %s: refused: %v", e.Node, e.Addr, e.Err)
	case e.begun:
		return fmt.Sprintf("peer %s at %s: broken after the request was begun: %v", e.Node, e.Addr, e.Err)
	}
	return fmt.Sprintf("peer %s at %s: not connected: %v", e.Node, e.Addr, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// NotConnected reports that the request certainly was not executed: no byte of
// it was written to a peer, or the peer's door refused it before any handler saw
// it. Such a request may be sent again, whatever its method, if its body can be
// (see [Body]). Any other error leaves open whether the peer ran it.
func NotConnected(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.begun
}
