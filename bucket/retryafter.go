package bucket

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// waitError is an error with the time that the store asked to be left alone.
type waitError struct {
	error
	wait time.Duration
}

func (e *waitError) Unwrap() error { return e.error }

// WithRetryAfter adds what the answer's Retry-After header says to err. A date in
// it is taken relative to the answer's own Date: no node's clock takes part.
func WithRetryAfter(err error, answer http.Header) error {
	if wait := headerWait(answer); err != nil && wait > 0 {
		return &waitError{err, wait}
	}
	return err
}

func headerWait(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(0, at.Sub(date))
}

// RetryAfter is how long the store asked to wait before the next request; 0 if
// it did not say. The error need not be an ErrThrottled: a proxy asks for that
// too, and what became of a write is then another question.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*waitError](err); ok {
		return e.wait
	}
	return 0
}

// Throttled is an ErrThrottled that says when to come again.
func Throttled(err error, wait time.Duration) error {
	return &waitError{errors.Join(ErrThrottled, err), wait}
}

// Waiter is a Bucket that knows when its store wants fewer requests.
type Waiter interface {
	// Wait returns when a write may be sent. An ErrThrottled says that this is
	// not before ctx ends; then nothing should be sent.
	Wait(ctx context.Context) error
}

// Wait is Waiter's for any bucket. Whoever sends a conditional write calls it
// first, before the last look at the clock: the write itself is never held back.
func Wait(ctx context.Context, b Bucket) error {
	if w, ok := b.(Waiter); ok {
		return w.Wait(ctx)
	}
	return nil
}
