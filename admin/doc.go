// Package admin faces operators: health, what a node knows, and the few things
// that it can be told to do. It reads and changes nothing but through [Node].
//
// Everything but the two health paths asks for the bearer token, if there is
// one. Without one the listener must be reachable by local programs only; a web
// page that the operator's browser has open is none of them, so requests that a
// page caused, or that use another name than a loopback one, are refused.
package admin

import (
	"context"
	"errors"

	"github.com/tenure-go/tenure/core"
)

// Node is what the operator looks at. Its methods are safe for concurrent use
// and return when ctx ends.
type Node interface {
	// Health returns nil if the deciding loop answers: it must be asked.
	Health(ctx context.Context) error
	// Ready returns nil if the node has authority, reaches its store and is
	// not draining; else why not.
	Ready(ctx context.Context) error
	// Info describes the node.
	Info(ctx context.Context) (Info, error)
	// Cells returns up to limit cells, those after the given name, in order of
	// their names.
	Cells(ctx context.Context, after string, limit int) (Cells, error)
	// Cell describes a cell, owned here or not, without activating it; it may
	// read the bucket.
	Cell(ctx context.Context, name string) (Cell, error)
}

// Drainer is a [Node] that can be told to drain.
type Drainer interface {
	// Drain begins to. It does not block.
	Drain()
}

// Releaser is a [Node] that can have cells given up.
type Releaser interface {
	// Release asks the cell's owner, perhaps another node, to give it up as
	// soon as nothing runs on it, and returns once it has been asked. It
	// returns ErrNotFound if nobody owns it.
	Release(ctx context.Context, name string) error
}

// Lister is a [Node] that knows what the bucket says of all nodes.
type Lister interface {
	// Nodes returns up to limit of them, those after the given id, in the order
	// of their ids.
	Nodes(ctx context.Context, after string, limit int) (Leases, error)
}

var (
	// ErrNotFound says that there is no such cell.
	ErrNotFound = errors.New("no such cell")
	// ErrBadName says that a name is not a cell's.
	ErrBadName = errors.New("bad cell name")
)

// Failed is an error that is a failure of the core; it is answered with its
// code.
type Failed struct{ core.Failure }

func (f Failed) Error() string {
	if f.Detail == "" {
		return string(f.Code)
	}
	return string(f.Code) + ": " + f.Detail
}

// Info is the answer of /v1/node. Times are in milliseconds.
type Info struct {
	Node     string `json:"node"`
	Name     string `json:"name"`
	Zone     string `json:"zone,omitempty"`
	Fleet    string `json:"fleet,omitempty"`
	Version  string `json:"version"`
	Protocol int    `json:"peer_protocol"`
	Listen   string `json:"listen,omitempty"` // public address
	Peer     string `json:"peer"`             // where peers reach it

	// Phase is where the session stands, in the core's words, if given.
	Phase    string `json:"phase,omitempty"`
	Ready    bool   `json:"ready"`
	Draining bool   `json:"draining"`
	// AuthorityMS is how long the node may serve if it never renews again.
	AuthorityMS int64 `json:"authority_left_ms"`
	// RenewalMarginMS is the authority that was left when a renewal was last
	// confirmed.
	RenewalMarginMS int64 `json:"renewal_margin_ms"`
	// StoreClockMS is the store's wall clock minus this node's; null until the
	// store has stamped an answer. Nothing is decided by it.
	StoreClockMS *int64 `json:"store_clock_offset_ms"`
	StoreError   string `json:"store_error,omitempty"` // of the last lease operation

	Owned     int `json:"owned"`     // cells owned here
	Resolving int `json:"resolving"` // cells being resolved, claimed or activated
	Leaving   int `json:"leaving"`   // cells on their way out
	Routes    int `json:"routes"`    // cells known to be elsewhere
	Waiting   int `json:"waiting"`   // requests that wait for an owner
	Requests  int `json:"requests"`  // requests in hand
	Peers     int `json:"peers"`     // nodes whose leases are observed
	Dead      int `json:"dead"`      // nodes remembered as dead
}

// Cell is one cell.
type Cell struct {
	Cell string `json:"cell"`
	// Phase is where the cell stands on this node; "remote" or "unowned" if
	// it does not run here.
	Phase string `json:"phase"`
	Owner string `json:"owner"`
	Epoch uint64 `json:"epoch"`
	Addr  string `json:"addr"` // the owner's peer address, if known
	Local bool   `json:"local"`
}

// Cells is a page of cells. Next, if there is one, is the "after" of the next
// page.
type Cells struct {
	Cells []Cell `json:"cells"`
	Next  string `json:"next,omitempty"`
}

// Lease is one node, as its lease in the bucket says.
type Lease struct {
	Node string `json:"node"`
	// Verdict is alive, released, expired (by the store's stamps), unknown,
	// absent or unreadable. It is for display.
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	// AgeMS is the time since its last write, by the store's stamps; null if
	// they cannot be compared.
	AgeMS    *int64 `json:"age_ms"`
	TTLMS    int64  `json:"ttl_ms,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Name     string `json:"name,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Addr     string `json:"addr,omitempty"`
	Protocol int    `json:"peer_protocol,omitempty"`
	Cells    int64  `json:"cells"`
	Requests int64  `json:"requests"`
	Draining bool   `json:"draining,omitempty"`
	// Removal: it has been dead for so long that the fleet will remove it.
	Removal bool `json:"due_for_removal,omitempty"`
}

// Leases is a page of nodes. Next, if there is one, is the "after" of the next
// page.
type Leases struct {
	Nodes []Lease `json:"nodes"`
	Next  string  `json:"next,omitempty"`
}
