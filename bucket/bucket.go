// Package bucket is the conditional object store that a fleet shares: the few
// operations that the ownership protocol needs, what their failures mean, and
// the test that a store must pass before anything relies on it.
//
// An adapter maps one service onto [Bucket]. It must be linearizable: a read
// that starts after a write was acknowledged, by anybody, sees that write or a
// later one.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Version is a store's opaque token for one state of one object: an ETag, a
// generation, a row version. It is only ever compared for equality and handed
// back. The empty Version is never a real one.
type Version string

// The kinds of failure. Adapters wrap these; callers use errors.Is.
//
// Any other error of a write is ambiguous: the write may have been applied,
// may still be applied later, or may never be. Any other error of a read says
// nothing about the object.
var (
	// ErrNotExist is the store's own object-not-found answer to a Get. No
	// other 404 is: a missing bucket or a proxy's page must not read as
	// "nobody owns this".
	ErrNotExist = errors.New("object does not exist")

	// ErrConflict is a rejected write: the store says that its condition did
	// not hold, so nothing was written.
	ErrConflict = errors.New("condition did not hold")

	// ErrNotApplied is a definite failure: the write certainly did not happen
	// and never will, though its condition might have held.
	ErrNotApplied = errors.New("not applied")

	// ErrContended is the ErrNotApplied that says only that another write to
	// the object was under way (S3's 409 ConditionalRequestConflict). The same
	// write should be sent again after a short pause.
	ErrContended = fmt.Errorf("%w: another write was under way", ErrNotApplied)

	// ErrThrottled is the ErrNotApplied that says only that the store wants
	// fewer requests for a while. A read may fail with it too.
	ErrThrottled = fmt.Errorf("%w: the store asked to slow down", ErrNotApplied)

	// ErrRefused is the ErrNotApplied of a store that will not do such a thing
	// for this caller: bad credentials, missing permission, a malformed
	// request. A read may fail with it too. Trying again seldom helps.
	ErrRefused = fmt.Errorf("%w: the store refused the request", ErrNotApplied)

	// ErrBroken says that the store's conditional writes or its times cannot
	// be relied on, so that it must not be used. It is about the store, and says
	// nothing of whether a write was applied.
	ErrBroken = errors.New("the store is broken")
)

// Stamps are two readings of the store's own clock that came with one answer.
// They may be subtracted from each other, and compared with stamps of other
// answers of the same store, but never with a node's clock.
type Stamps struct {
	// Date is when the store made the answer.
	Date time.Time
	// Modified is when the store last wrote the object. It is zero where the
	// answer carries none, or where it comes from another boot or time
	// namespace than Date and so must not be compared with it.
	Modified time.Time
}

// Object is one object as read.
type Object struct {
	Body    []byte
	Version Version
	Stamps
}

// Written is the result of an applied write.
type Written struct {
	Version Version
	// Date is the store's stamp of the answer; zero if it gave none.
	Date time.Time
}

// Listing is one page of keys.
type Listing struct {
	// Keys are full keys, ascending in byte order.
	Keys []string
	// Next continues the listing when passed to List; empty on the last page.
	Next string
}

// Traits is what an adapter declares about its store; nothing is guessed from
// the text of an error.
type Traits struct {
	// Rounding is how coarse the store's stamps are: a second for HTTP dates,
	// zero for stores that stamp their own fine-grained clock.
	Rounding time.Duration
	// BodyVersions says that equal bodies were given equal versions (an MD5
	// ETag). The protocol is safe with it because no record body ever recurs.
	BodyVersions bool
	// MinTTL is the least lease TTL for leases kept in this store, where it
	// takes fewer writes of one object than shorter leases need; else zero.
	MinTTL time.Duration
}

// Bucket is one object store, under one prefix, with one client and one
// connection pool of its own. All methods may be called concurrently.
//
// Keys are slash-separated and never start with a slash. Bodies are at most
// [MaxBody] bytes; a larger object is an error of Get, never a truncated body.
//
// Create, Replace and Delete are sent at most once per call: the client
// library's retries are off for them, because a retry of a write that had
// landed would be answered "rejected", which is false. Get and List may retry
// within their context, but an adapter's need not: package pace does, for all
// clients of a bucket together. An adapter adds a Retry-After to its errors by
// [WithRetryAfter]. Every method returns soon after its context ends; a
// write cut off by it is ambiguous unless it was certainly never sent.
type Bucket interface {
	// Get reads one object, with the store's stamps of this very answer. An
	// answer out of a cache (one that carries Age) is an error, as is a body
	// that does not match a version derived from the body.
	Get(ctx context.Context, key string) (Object, error)

	// Create writes the object if there is none. ErrConflict: there is one.
	Create(ctx context.Context, key string, body []byte) (Written, error)

	// Replace writes the object if its version is still exactly v.
	// ErrConflict: it is another, or the object is gone.
	Replace(ctx context.Context, key string, body []byte, v Version) (Written, error)

	// Delete removes the object; an absent one is no error. It is
	// unconditional, so only the owner of a key may use it.
	Delete(ctx context.Context, key string) error

	// List returns keys that start with prefix and come after the key or
	// Listing.Next given in after (empty: from the start), at most limit of
	// them (0: the store's page size).
	List(ctx context.Context, prefix, after string, limit int) (Listing, error)

	// Traits does no I/O.
	Traits() Traits

	// Fresh drops idle connections, so that the next operation makes a new
	// one. Called after a lease operation failed: its connection may be dead.
	Fresh()

	// Close releases the client; operations under way may fail.
	Close() error
}

// MaxBody bounds an object's size, in bytes. Records are a few hundred.
const MaxBody = 64 << 10
