package node

import (
	"testing"
	"time"
)

// The clock is read anew when wall and monotonic clock have moved apart, as
// they do in a suspension.
func TestBootClockFollowsSuspension(t *testing.T) {
	c := NewBootClock()
	const slept = int64(time.Hour)
	// As if offset and difference had been read an hour of suspension ago.
	c.offset.Add(-slept)
	c.seen.Add(-slept)
	before, now, after := bootTime(), c.Now(), bootTime()
	if now < before || now > after {
		t.Errorf("%d is not between %d and %d: %s off", now, before, after, time.Duration(now-before))
	}
	if d := time.Duration(c.Now() - bootTime()); d > time.Millisecond || d < -time.Millisecond {
		t.Errorf("%s off after that", d)
	}
}

// A step of the wall clock alone does not move it.
func TestBootClockIgnoresTheWallClock(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour, 21 * time.Microsecond} {
		c := NewBootClock()
		c.seen.Add(int64(step))
		before, now, after := bootTime(), c.Now(), bootTime()
		if now < before || now > after {
			t.Errorf("step of %s: %s off", step, time.Duration(now-before))
		}
	}
}

func TestBootTimerFires(t *testing.T) {
	c := NewBootClock()
	fired := make(chan struct{}, 1)
	timer := c.NewTimer(func() { fired <- struct{}{} })
	defer timer.Close()
	at := c.Now() + 1e6
	timer.Set(never)
	timer.Set(at)
	select {
	case <-fired:
		if now := bootTime(); now < at {
			t.Errorf("fired %s too early", time.Duration(at-now))
		}
	case <-time.After(10 * time.Second):
		t.Fatal("did not fire")
	}
}
