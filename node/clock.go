package node

import (
	"context"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Clock is the one clock of a node: it measures authority. It must be
// monotonic and keep counting while the machine is suspended. [BootClock]
// is the real one.
type Clock interface {
	// Now is in nanoseconds since an arbitrary instant. It may be called
	// concurrently.
	Now() core.Time
	// NewTimer returns a stopped timer on this clock, which calls fire each time
	// that it fires, on no goroutine of its caller's.
	NewTimer(fire func()) Timer
	// Until returns a context that ends when ctx does, or at an instant.
	Until(ctx context.Context, at core.Time) (context.Context, context.CancelFunc)
}

// Timer fires once at the instant last set; an instant that has passed fires at
// once, also if it passed while the machine was suspended. It may still fire for
// an earlier setting after Set, and once after Close.
type Timer interface {
	Set(at core.Time)
	Close()
}

// never is an instant that no timer is set for.
const never = core.Time(1<<63 - 1)

// Until counts by Go's own timers: what it bounds is an operation that should
// not take long, and no authority depends on it.
func (c *BootClock) Until(ctx context.Context, at core.Time) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(at-c.Now()))
}
