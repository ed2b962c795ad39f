package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tenure-go/tenure/internal/trace"
)

// until is when to stop; the zero value is never.
type until struct {
	line  int
	clock string // time of day
	at    time.Time
	after time.Duration
}

func parseUntil(s string) (u until, err error) {
	if s == "" {
		return u, nil
	}
	if u.line, err = strconv.Atoi(s); err == nil {
		return u, nil
	}
	if u.after, err = time.ParseDuration(s); err == nil {
		return u, nil
	}
	if u.at, err = time.Parse(time.RFC3339Nano, s); err == nil {
		return u, nil
	}
	if _, err = time.Parse("15:04:05", s); err == nil {
		u.clock = s
		return u, nil
	}
	return u, fmt.Errorf("is %q, must be a line number, 15:04:05.000, a date and time (RFC 3339) or a duration", s)
}

func (u until) passed(line int, at time.Time, h trace.Header) bool {
	switch {
	case u.line > 0:
		return line > u.line
	case u.clock != "":
		y, m, d := h.Wall.Date()
		clock, _ := time.Parse("15:04:05", u.clock) // parseUntil saw to it
		end := time.Date(y, m, d, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), h.Wall.Location())
		if end.Before(h.Wall) {
			end = end.AddDate(0, 0, 1)
		}
		return at.After(end)
	case !u.at.IsZero():
		return at.After(u.at)
	case u.after > 0:
		return at.Sub(h.Wall) > u.after
	}
	return false
}
