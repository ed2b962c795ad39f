//go:build !linux

package sqlite

import (
	"crypto/rand"
	"time"
)

// newClock counts from this call: this system has no clock that is known to be
// the same for all processes. The origin is therefore this handle's own, and
// records of others carry no comparable time; observing that they do not change
// still tells that their writer is dead.
func newClock() (clock, error) {
	start := time.Now()
	return clock{
		origin:      "process " + rand.Text(),
		nanoseconds: func() int64 { return int64(time.Since(start)) },
	}, nil
}
