package node

import "github.com/tenure-go/tenure/core"

// Clock is the one clock of a node: it measures authority. It must be
// monotonic and keep counting while the machine is suspended. [BootClock]
// is the real one.
type Clock interface {
	// Now is in nanoseconds since an arbitrary instant. It may be called
	// concurrently.
	Now() core.Time
	// NewTimer returns a stopped timer on this clock.
	NewTimer() Timer
}

// Timer fires once at the instant last set; an instant that has passed fires at
// once, also if it passed while the machine was suspended.
type Timer interface {
	// C receives when it fires. A value from an earlier setting may still be
	// there after Set.
	C() <-chan struct{}
	Set(at core.Time)
	Close()
}

// never is an instant that no timer is set for.
const never = core.Time(1<<63 - 1)
