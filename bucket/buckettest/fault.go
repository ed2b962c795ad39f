package buckettest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/bucket"
)

// Kind is an operation of a bucket.
type Kind string

// The operations.
const (
	Get     Kind = "get"
	Create  Kind = "create"
	Replace Kind = "replace"
	Delete  Kind = "delete"
	List    Kind = "list"
)

// Call is an operation about to be performed.
type Call struct {
	Kind    Kind
	Key     string         // the prefix of a List
	Body    []byte         // of a Create or Replace
	Version bucket.Version // of a Replace
}

// A Predicate chooses the calls that a rule is for. It may be called from
// several goroutines.
type Predicate func(Call) bool

// Is chooses calls of these kinds.
func Is(kinds ...Kind) Predicate {
	return func(c Call) bool {
		for _, k := range kinds {
			if c.Kind == k {
				return true
			}
		}
		return false
	}
}

// Writes chooses conditional writes.
var Writes = Is(Create, Replace)

// Any chooses every call.
func Any(Call) bool { return true }

// Key chooses calls whose key starts with prefix.
func Key(prefix string) Predicate {
	return func(c Call) bool { return strings.HasPrefix(c.Key, prefix) }
}

// And chooses what all of ps choose. A later one is asked only where the
// earlier ones agree, so put Nth and First last.
func And(ps ...Predicate) Predicate {
	return func(c Call) bool {
		for _, p := range ps {
			if !p(c) {
				return false
			}
		}
		return true
	}
}

// Nth chooses the n-th call that it is asked about, counted from 1.
func Nth(n int64) Predicate {
	var asked atomic.Int64
	return func(Call) bool { return asked.Add(1) == n }
}

// First chooses the first n calls that it is asked about.
func First(n int64) Predicate {
	var asked atomic.Int64
	return func(Call) bool { return asked.Add(1) <= n }
}

// A Fault stands in for an operation. It may perform it, by do, at most once;
// its error is what the caller gets.
type Fault func(ctx context.Context, c Call, do func(context.Context) error) error

// ErrInjected is the error of a fault that was given none: one whose meaning a
// caller cannot know, so ambiguous for a write.
var ErrInjected = errors.New("injected fault")

// FailBefore fails without performing the operation; nil means ErrInjected.
func FailBefore(err error) Fault {
	return func(context.Context, Call, func(context.Context) error) error { return orInjected(err) }
}

// LoseAnswer performs the operation and fails nevertheless; nil means
// ErrInjected.
func LoseAnswer(err error) Fault {
	return func(ctx context.Context, _ Call, do func(context.Context) error) error {
		_ = do(ctx) // lost, whatever it was
		return orInjected(err)
	}
}

// Contend fails with ErrContended.
func Contend() Fault { return FailBefore(bucket.ErrContended) }

// Delay performs the operation after d, or fails when the context ends first.
func Delay(d time.Duration) Fault {
	return func(ctx context.Context, _ Call, do func(context.Context) error) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return do(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Hang never performs the operation, and fails when the context ends.
func Hang() Fault {
	return func(ctx context.Context, _ Call, _ func(context.Context) error) error {
		<-ctx.Done()
		return ctx.Err()
	}
}

// ApplyLate hangs until the context ends, and performs the operation once
// release is closed, though nobody waits for it any more. A test receives from
// applied, unless it is nil, to go on after that.
func ApplyLate(release <-chan struct{}, applied chan<- error) Fault {
	return func(ctx context.Context, _ Call, do func(context.Context) error) error {
		go func() {
			<-release
			err := do(context.WithoutCancel(ctx))
			if applied != nil {
				applied <- err
			}
		}()
		<-ctx.Done()
		return ctx.Err()
	}
}

func orInjected(err error) error {
	if err == nil {
		return ErrInjected
	}
	return err
}

// A Rule injects a fault into the calls that When chooses.
type Rule struct {
	When Predicate
	Do   Fault
}

// Faulty is a bucket whose operations fail by rule.
type Faulty struct {
	bucket.Bucket

	mu    sync.Mutex
	rules []Rule
}

// Inject wraps b. The first rule that chooses a call decides; a call that none
// chooses goes through.
func Inject(b bucket.Bucket, rules ...Rule) *Faulty {
	return &Faulty{Bucket: b, rules: rules}
}

// Set replaces the rules; with none, faults end.
func (f *Faulty) Set(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
}

func (f *Faulty) fault(c Call) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.When(c) {
			return r.Do
		}
	}
	return nil
}

// perform runs one operation through the rules.
func perform[T any](ctx context.Context, f *Faulty, c Call, op func(context.Context) (T, error)) (T, error) {
	fault := f.fault(c)
	if fault == nil {
		return op(ctx)
	}
	var value, none T
	err := fault(ctx, c, func(ctx context.Context) (err error) {
		value, err = op(ctx)
		return err
	})
	if err != nil {
		return none, err // value may still be written, by a late operation
	}
	return value, nil
}

// Get implements bucket.Bucket.
func (f *Faulty) Get(ctx context.Context, key string) (bucket.Object, error) {
	return perform(ctx, f, Call{Kind: Get, Key: key}, func(ctx context.Context) (bucket.Object, error) {
		return f.Bucket.Get(ctx, key)
	})
}

// Create implements bucket.Bucket.
func (f *Faulty) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	return perform(ctx, f, Call{Kind: Create, Key: key, Body: body}, func(ctx context.Context) (bucket.Written, error) {
		return f.Bucket.Create(ctx, key, body)
	})
}

// Replace implements bucket.Bucket.
func (f *Faulty) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	c := Call{Kind: Replace, Key: key, Body: body, Version: v}
	return perform(ctx, f, c, func(ctx context.Context) (bucket.Written, error) {
		return f.Bucket.Replace(ctx, key, body, v)
	})
}

// Delete implements bucket.Bucket.
func (f *Faulty) Delete(ctx context.Context, key string) error {
	_, err := perform(ctx, f, Call{Kind: Delete, Key: key}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, f.Bucket.Delete(ctx, key)
	})
	return err
}

// List implements bucket.Bucket.
func (f *Faulty) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	return perform(ctx, f, Call{Kind: List, Key: prefix}, func(ctx context.Context) (bucket.Listing, error) {
		return f.Bucket.List(ctx, prefix, after, limit)
	})
}
