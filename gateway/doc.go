// Package gateway faces users: it turns a request into a cell, asks what to do
// with it, and then runs it here or passes it to the node that owns the cell.
//
// It decides nothing itself. Every request is one [Call]: Next says where the
// request goes, Ready lets its answer out, and Done ends it. Between the
// application and the client stands a gate (answer.go): no byte of an answer,
// not even an informational one, passes before Ready said so; what the core
// fails in the meantime is answered with a problem document, and what it breaks
// off later ends in a broken connection, so that the client can tell.
//
// Headers that begin with "Tenure-" belong to the fleet. A client's and an
// application's own are removed on the way, wherever they are hidden.
package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Call is one request in the hands of the deciding loop.
type Call interface {
	// Next blocks until it is known what to do with the request, and returns a
	// core.Dispatch (run it here), a core.Forward (send it to that node) or a
	// core.Fail. It is called again after ForwardFailed, never after a
	// Dispatch or a Fail. Once the client has left it returns a core.Fail.
	Next(ctx context.Context) core.Effect
	// Context is the request's own, with its values. It ends when the core
	// failed or aborted the request and when the client left. It is never nil.
	Context() context.Context
	// Ready says that the answer is there. It blocks until the answer may
	// begin, and then returns true; the first byte must follow at once. Else it
	// returns the failure to answer with. Once the request was failed it
	// returns that failure immediately, whether or not ctx has ended. If the
	// client has left, the failure has no code: nothing is answered. It is
	// called at most once with an answer at hand, and once more when Context
	// ended, by whichever goroutine finds out.
	Ready(ctx context.Context) (core.Failure, bool)
	// ForwardFailed says that a forward brought no answer of the cell. Next
	// follows, or Done if the request cannot be sent again.
	ForwardFailed(how core.ForwardFailure, refusal core.Failure)
	// Done is called exactly once, at the end, whatever came before: nothing
	// touches the cell on behalf of this request any more.
	Done()
}

// Decider begins calls. Its methods are safe for concurrent use.
type Decider interface {
	// Begin hands a request over. forwarded says that a peer sent it, so that
	// it is run here or refused, never forwarded on. timeout bounds the time
	// until its answer begins; the deciding loop enforces it.
	Begin(ctx context.Context, cell core.CellName, forwarded bool, timeout time.Duration) Call
	// Self is this node's id.
	Self() core.NodeID
}

// Peers reaches the other nodes. Its methods are safe for concurrent use.
type Peers interface {
	// Transport returns what sends requests to exactly that session of that
	// node, or nil if there is no way to. It speaks HTTP/1.1, upgrades
	// included, and sends no request again of which a byte was written.
	// A body longer than 64 KiB, or of unknown length, is sent only when the
	// other side asks for it with 100 Continue; the Expect header that this
	// takes is not seen by [Gateway.ServePeer] there.
	Transport(node core.NodeID, contact core.Contact) http.RoundTripper
	// NotConnected reports whether an error of such a transport means that the
	// request certainly did not get to a handler there.
	NotConnected(err error) bool
}

// Local returns what serves a cell here at an epoch, or nil if nothing does.
type Local func(cell core.CellName, epoch core.Epoch) http.Handler
