package node

import (
	"errors"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
)

// outcomeOf says what is known of a write. Whatever is not one of the known
// failures is ambiguous, an applied write without a version too.
func outcomeOf(w bucket.Written, err error) core.WriteOutcome {
	switch {
	case err == nil && w.Version != "":
		return core.Applied
	case errors.Is(err, bucket.ErrConflict):
		return core.Rejected
	case errors.Is(err, bucket.ErrContended):
		return core.Contended
	case errors.Is(err, bucket.ErrNotApplied):
		return core.NotApplied
	}
	return core.Ambiguous
}

func readOutcome(err error) core.ReadOutcome {
	switch {
	case err == nil:
		return core.Found
	case errors.Is(err, bucket.ErrNotExist):
		return core.Absent
	case errors.Is(err, bucket.ErrTooLarge):
		return core.BadRecord
	}
	return core.ReadFailed
}

// stamps turns the store's times into the core's, which only subtracts them
// from each other.
func stamps(s bucket.Stamps) core.Stamps {
	return core.Stamps{
		Date: at(s.Date), HasDate: !s.Date.IsZero(),
		Modified: at(s.Modified), HasModified: !s.Modified.IsZero(),
	}
}

func at(t time.Time) core.Time {
	if t.IsZero() {
		return 0
	}
	return core.Time(t.UnixNano())
}
