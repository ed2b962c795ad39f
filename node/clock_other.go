//go:build !linux

package node

import (
	"time"

	"github.com/tenure-go/tenure/core"
)

// BootClock is Go's monotonic clock here. Where that stops while the machine
// is suspended, a node must not be suspended: docs/protocol.md.
type BootClock struct{}

var processStart = time.Now()

// Now reads the clock.
func (BootClock) Now() core.Time { return core.Time(time.Since(processStart)) }

// NewTimer returns a timer on the same clock.
func (c BootClock) NewTimer() Timer {
	t := &goTimer{c: make(chan struct{}, 1)}
	t.timer = time.AfterFunc(time.Duration(never), func() {
		select {
		case t.c <- struct{}{}:
		default:
		}
	})
	return t
}

type goTimer struct {
	c     chan struct{}
	timer *time.Timer
}

func (t *goTimer) C() <-chan struct{} { return t.c }
func (t *goTimer) Close()             { t.timer.Stop() }

func (t *goTimer) Set(at core.Time) {
	if at == never {
		t.timer.Stop()
		return
	}
	t.timer.Reset(time.Duration(at - BootClock{}.Now()))
}
