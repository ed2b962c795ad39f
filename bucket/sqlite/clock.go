package sqlite

import "time"

// A clock stamps records. It runs at the same rate and from the same origin for
// all processes that share its origin string; stamps of other origins must not
// be compared with its own.
type clock struct {
	origin string
	// nanoseconds since an arbitrary moment; keeps counting while the machine
	// is suspended where the system can say so.
	nanoseconds func() int64
}

func (c clock) now() time.Time { return stampTime(c.nanoseconds()) }

// stampTime shows a stamp as a time. Stamps are only ever subtracted, so the
// year means nothing; it only keeps them from being the zero time.
func stampTime(nanoseconds int64) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(nanoseconds))
}
