//go:build !linux

package node

import (
	"time"

	"github.com/tenure-go/tenure/core"
)

// BootClock is Go's monotonic clock here. Where that stops while the machine
// is suspended, a node must not be suspended: docs/protocol.md.
type BootClock struct{ start time.Time }

// NewBootClock returns the machine's clock.
func NewBootClock() *BootClock { return &BootClock{start: time.Now()} }

// Now reads the clock.
func (c *BootClock) Now() core.Time { return core.Time(time.Since(c.start)) }

// NewTimer returns a timer on the same clock.
func (c *BootClock) NewTimer(fire func()) Timer {
	return &goTimer{clock: c, timer: time.AfterFunc(time.Duration(never), fire)}
}

type goTimer struct {
	clock *BootClock
	timer *time.Timer
}

func (t *goTimer) Close() { t.timer.Stop() }

func (t *goTimer) Set(at core.Time) {
	if at == never {
		t.timer.Stop()
		return
	}
	t.timer.Reset(time.Duration(at - t.clock.Now()))
}
