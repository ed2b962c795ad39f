package pace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/bucket"
)

// How a read or a list is tried again: after up to firstPause, doubled each time.
const (
	attempts   = 4
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// lane is a client whose requests are counted, and whose answers are noted.
type lane struct {
	bucket.Bucket
	pace *Pace
}

// send performs one operation.
func send[T any](l *lane, kind, key string, op func() (T, error)) (T, error) {
	sent := time.Now()
	v, err := op()
	l.pace.note(sent, err)
	l.pace.count(kind, key, err, time.Since(sent))
	return v, err
}

func (l *lane) Get(ctx context.Context, key string) (bucket.Object, error) {
	return send(l, "get", key, func() (bucket.Object, error) { return l.Bucket.Get(ctx, key) })
}

func (l *lane) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	return send(l, "create", key, func() (bucket.Written, error) { return l.Bucket.Create(ctx, key, body) })
}

func (l *lane) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	return send(l, "replace", key, func() (bucket.Written, error) { return l.Bucket.Replace(ctx, key, body, v) })
}

func (l *lane) Delete(ctx context.Context, key string) error {
	_, err := send(l, "delete", key, func() (struct{}, error) { return struct{}{}, l.Bucket.Delete(ctx, key) })
	return err
}

func (l *lane) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	return send(l, "list", prefix, func() (bucket.Listing, error) { return l.Bucket.List(ctx, prefix, after, limit) })
}

// paced is a lane that waits for its turn, and tries reads and lists again.
type paced struct{ lane }

// Wait implements bucket.Waiter.
func (b *paced) Wait(ctx context.Context) error {
	deadline, bounded := ctx.Deadline()
	wait, ok := b.pace.turn(deadline, bounded)
	if !ok {
		return bucket.Throttled(fmt.Errorf("not sent: it takes requests again in %s at the earliest", wait.Round(time.Millisecond)), wait)
	}
	if wait == 0 {
		return nil
	}
	if err := sleep(ctx, wait); err != nil {
		return bucket.Throttled(fmt.Errorf("not sent: %w", err), wait)
	}
	return nil
}

func (b *paced) Get(ctx context.Context, key string) (bucket.Object, error) {
	return again(ctx, b, func() (bucket.Object, error) { return b.lane.Get(ctx, key) })
}

func (b *paced) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	return again(ctx, b, func() (bucket.Listing, error) { return b.lane.List(ctx, prefix, after, limit) })
}

// again performs a read until it succeeds, or trying again is not worth it.
func again[T any](ctx context.Context, b *paced, op func() (T, error)) (v T, err error) {
	for n := range attempts {
		if held := b.Wait(ctx); held != nil {
			if err == nil { // else what the store answered says more
				err = held
			}
			return v, err
		}
		v, err = op()
		if !worthRetrying(err) {
			b.pace.earn()
			return v, err
		}
		if n == attempts-1 || !b.pause(ctx, n) {
			break
		}
	}
	return v, err
}

// pause waits before the next try, with full jitter; false if there is none.
func (b *paced) pause(ctx context.Context, n int) bool {
	d := b.pace.random(min(firstPause<<n, mostPause))
	if by, ok := ctx.Deadline(); ok && !time.Now().Add(d).Before(by) {
		return false
	}
	return ctx.Err() == nil && b.pace.retry() && sleep(ctx, d) == nil
}

// worthRetrying: another try may bring another answer.
func worthRetrying(err error) bool {
	switch {
	case err == nil, errors.Is(err, bucket.ErrNotExist), errors.Is(err, bucket.ErrRefused),
		errors.Is(err, bucket.ErrBroken), errors.Is(err, bucket.ErrTooLarge):
		return false
	}
	return true
}

// sleep waits; an error says that ctx ended first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
