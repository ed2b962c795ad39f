package sim

import (
	"context"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// rate is how far a clock runs wrong: in two thousandths of real time. The
// protocol allows slack, a twentieth, per TTL.
type rate int64

const boundRate = rate(100)

// span is what the clock counts while t nanoseconds pass.
func (r rate) span(t int64) int64 { return t + t/2000*int64(r) + t%2000*int64(r)/2000 }

// reach is the shortest real time within which the clock counts d.
func (r rate) reach(d int64) int64 {
	t := d / (2000 + int64(r)) * 2000
	t += d % (2000 + int64(r)) * 2000 / (2000 + int64(r))
	for t > 0 && r.span(t-1) >= d {
		t--
	}
	for r.span(t) < d {
		t++
	}
	return t
}

// clock is what a process reads: its node.Clock.
type clock struct{ p *proc }

// showing is what the process's clock shows now.
func (p *proc) showing() core.Time { return p.offset + core.Time(p.rate.span(p.w.t)) }

// whenShows is how long it takes until the clock shows an instant.
func (p *proc) whenShows(at core.Time) int64 {
	return p.rate.reach(max(0, int64(at-p.offset))) - p.w.t
}

// Now is where a process may be stopped: before the value is sampled.
func (c clock) Now() core.Time {
	c.p.reading()
	return c.p.showing()
}

// NewTimer implements node.Clock.
func (c clock) NewTimer(fire func()) node.Timer { return &timer{p: c.p, fire: fire} }

type timer struct {
	p    *proc
	fire func()
	set  int // how often it was set
}

// forever is as far away as no run lasts.
const forever = core.Time(1 << 60)

// Set implements node.Timer.
func (t *timer) Set(at core.Time) {
	t.set++
	if at > forever {
		return
	}
	set := t.set
	t.p.w.in(t.p.whenShows(at), func() {
		if set == t.set {
			t.p.start(t.fire)
		}
	})
}

// Close implements node.Timer.
func (t *timer) Close() { t.set++ }

// Until implements node.Clock.
func (c clock) Until(ctx context.Context, at core.Time) (context.Context, context.CancelFunc) {
	u := &until{Context: ctx, w: c.p.w, at: c.p.w.t + max(0, c.p.whenShows(at))}
	c.p.w.in(u.at-c.p.w.t, c.p.poke)
	return u, func() {
		if u.Err() == nil {
			u.err = context.Canceled
		}
	}
}

// until is a context that ends at an instant. Nothing blocks on it.
type until struct {
	context.Context
	w   *world
	at  int64
	err error
}

var (
	open   = make(chan struct{})
	closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
)

// Err implements context.Context.
func (u *until) Err() error {
	if u.err == nil {
		if u.err = u.Context.Err(); u.err == nil && u.w.t >= u.at {
			u.err = context.DeadlineExceeded
		}
	}
	return u.err
}

// Done implements context.Context.
func (u *until) Done() <-chan struct{} {
	if u.Err() != nil {
		return closed
	}
	return open
}
