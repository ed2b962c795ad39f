package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"
)

// Step is one property of the start-up test, once it was tried.
type Step struct {
	// Name is stable: "absent", "create", "create-existing", "replace",
	// "replace-old", "read", "times", "list", "delete".
	Name string
	// Property is what must be so, in words.
	Property string
	// Err is nil if it is so, and a *TestError otherwise.
	Err error
}

// TestError is a failed start-up test. errors.Is(err, ErrBroken) says that the
// store answered and must not be used; otherwise it could not be reached and
// the test may be repeated, with another key.
type TestError struct {
	Step     string // the Name of the step that failed
	Property string // what should have been so
	Answer   error  // what the store answered
	Advice   string // what to do; never empty for a store that must not be used
	Broken   bool
}

// Error says all of it in one line.
func (e *TestError) Error() string {
	if !e.Broken {
		return fmt.Sprintf("start-up test of the bucket, step %q: no usable answer: %v", e.Step, e.Answer)
	}
	return fmt.Sprintf("the bucket must not be used: %s (step %q): the store's answer: %v. %s", e.Property, e.Step, e.Answer, e.Advice)
}

// Is makes errors.Is(e, ErrBroken) true for a store that must not be used.
func (e *TestError) Is(target error) bool { return target == ErrBroken && e.Broken }

// Unwrap returns the store's answer.
func (e *TestError) Unwrap() error { return e.Answer }

// Test is the test that a bucket must pass before anything relies on it. It
// writes and deletes one object at key ("probe/<node>-<n>"), which nobody may
// have used before. It waits out throttling until ctx ends. report, unless nil,
// is called after each step; the first step that fails is the last.
//
// The error is a *TestError, or nil.
func Test(ctx context.Context, b Bucket, key string, report func(Step)) error {
	if report == nil {
		report = func(Step) {}
	}
	p := probe{ctx: ctx, b: b, key: key}
	for _, s := range steps {
		err := s.judge(s.try(&p))
		report(Step{Name: s.name, Property: s.property, Err: err})
		if err != nil {
			p.cleanUp()
			return err
		}
	}
	return nil
}

// step is a property, how to try it, and what to do where it does not hold.
type step struct {
	name, property, advice string
	try                    func(*probe) error
}

// wrongAnswer is an answer that disproves the property.
type wrongAnswer struct{ error }

func wrong(format string, args ...any) error { return wrongAnswer{fmt.Errorf(format, args...)} }

// judge tells a store that is broken from one that cannot be reached.
func (s step) judge(err error) error {
	if err == nil {
		return nil
	}
	e := &TestError{Step: s.name, Property: s.property, Answer: err}
	switch {
	case errors.Is(err, ErrBroken), errors.As(err, new(wrongAnswer)):
		e.Broken, e.Advice = true, s.advice
	case errors.Is(err, ErrRefused):
		e.Broken, e.Advice = true, "Check the credentials and the region, the name of the bucket, and that reading, writing, deleting and listing objects is permitted"
	}
	return e
}

const useAnother = "Use a store with working conditional writes, or a version of it that has them"

var steps = []step{
	{
		"absent", "an absent object must read as absent",
		"Check the name of the bucket and the permissions; on S3 reading an absent object needs s3:ListBucket",
		(*probe).absent,
	},
	{"create", "a create of an absent object must succeed", useAnother, (*probe).create},
	{"create-existing", "a create of an existing object must be rejected", useAnother, (*probe).createExisting},
	{"replace", "a replace of the current version must succeed, with a new version", useAnother, (*probe).replace},
	{"replace-old", "a replace of an old version must be rejected", useAnother, (*probe).replaceOld},
	{
		"read", "a read must return the last write",
		"Use a store with strongly consistent reads, with no cache in front of it", (*probe).read,
	},
	{
		"times", "the answers must carry the store's own time and the object's, by one clock",
		"Make the store and any proxy send correct Date and Last-Modified headers", (*probe).times,
	},
	{"list", "a list must show an object just written", "Use a store with strongly consistent lists", (*probe).list},
	{"delete", "a deleted object must read as absent", "Check the permission to delete objects", (*probe).delete},
}

// probe is the test's object.
type probe struct {
	ctx     context.Context
	b       Bucket
	key     string
	touched bool // it may exist
	old     Version
	current Version
	body    []byte
	sent    time.Time // when the last applied write was about to be sent
	seen    Object
	took    time.Duration // from sent to the end of the read that gave seen
}

func (p *probe) absent() error {
	_, err := p.get()
	if err == nil {
		return wrong("an object at a key that was never used")
	}
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	return err
}

func (p *probe) create() error {
	p.touched = true
	body := p.newBody()
	w, err := p.write(func() (Written, error) { return p.b.Create(p.ctx, p.key, body) })
	if errors.Is(err, ErrConflict) {
		return wrongAnswer{err}
	}
	p.current, p.body = w.Version, body
	return err
}

func (p *probe) createExisting() error {
	return rejected(p.write(func() (Written, error) { return p.b.Create(p.ctx, p.key, p.newBody()) }))
}

func (p *probe) replace() error {
	p.sent = time.Now()
	body := p.newBody()
	w, err := p.write(func() (Written, error) { return p.b.Replace(p.ctx, p.key, body, p.current) })
	if errors.Is(err, ErrConflict) {
		return wrongAnswer{err}
	}
	if err == nil && w.Version == p.current {
		return wrong("version %q again", w.Version)
	}
	p.old, p.current, p.body = p.current, w.Version, body
	return err
}

func (p *probe) replaceOld() error {
	return rejected(p.write(func() (Written, error) { return p.b.Replace(p.ctx, p.key, p.newBody(), p.old) }))
}

func (p *probe) read() error {
	o, err := p.get()
	if errors.Is(err, ErrNotExist) {
		return wrongAnswer{err}
	}
	if err != nil {
		return err
	}
	p.seen, p.took = o, time.Since(p.sent)
	if string(o.Body) != string(p.body) || o.Version != p.current {
		return wrong("another body or version (%q, written was %q)", o.Version, p.current)
	}
	return nil
}

// allowance is what the protocol forgives between a store's two stamps, and
// lag how far Date may be behind: that only makes a verdict late.
const (
	allowance = time.Second
	lag       = 10 * time.Second
)

func (p *probe) times() error {
	s := p.seen.Stamps
	if s.Date.IsZero() || s.Modified.IsZero() {
		return wrong("date %v, modified %v", s.Date, s.Modified)
	}
	age, most := s.Date.Sub(s.Modified), p.took+p.b.Traits().Rounding+allowance
	if age > most || age < -lag {
		return wrong("date %v, modified %v, though it was written at most %v before", s.Date, s.Modified, p.took)
	}
	return nil
}

func (p *probe) list() error {
	l, err := retry(p.ctx, func() (Listing, error) { return p.b.List(p.ctx, p.key, "", 0) })
	if err != nil {
		return err
	}
	if !slices.Contains(l.Keys, p.key) {
		return wrong("%d other objects", len(l.Keys))
	}
	return nil
}

func (p *probe) delete() error {
	_, err := p.write(func() (Written, error) { return Written{}, p.b.Delete(p.ctx, p.key) })
	if err != nil {
		return err
	}
	return p.absent()
}

// cleanUp removes the object also where the test was given up.
func (p *probe) cleanUp() {
	if !p.touched {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 5*time.Second)
	defer cancel()
	// A probe that stays behind is harmless: its key is never used again.
	_ = p.b.Delete(ctx, p.key)
}

// newBody differs each time, as a version may be derived from the body.
func (p *probe) newBody() []byte {
	return fmt.Appendf(nil, `{"probe":%q,"random":%q}`, p.key, rand.Text())
}

func (p *probe) get() (Object, error) {
	return retry(p.ctx, func() (Object, error) { return p.b.Get(p.ctx, p.key) })
}

func (p *probe) write(op func() (Written, error)) (Written, error) { return retry(p.ctx, op) }

// rejected judges a write whose condition did not hold.
func rejected(_ Written, err error) error {
	if err == nil {
		return wrong("success: it accepted the condition and did not apply it")
	}
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// retry sends an operation again for as long as the store answers that it was
// too busy, and so did nothing.
func retry[T any](ctx context.Context, op func() (T, error)) (T, error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		v, err := op()
		if !errors.Is(err, ErrThrottled) && !errors.Is(err, ErrContended) {
			return v, err
		}
		// A fleet that starts at once must not come back at once.
		wait := max(RetryAfter(err), pause/2+mathrand.N(pause/2))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return v, fmt.Errorf("%w; gave up: %w", err, ctx.Err())
		}
	}
}
