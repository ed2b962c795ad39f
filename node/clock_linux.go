package node

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-go/tenure/core"
)

// BootClock is CLOCK_BOOTTIME: unlike Go's own monotonic clock, and its timers,
// it keeps counting while the machine is suspended.
//
// Reading it is a system call, which a request cannot afford several times. So
// a reading is Go's monotonic clock plus the difference of the two clocks, which
// only a suspension changes. A suspension, and else only a step of the wall
// clock, also changes the difference of wall and monotonic clock, both of which
// are read without a system call; so the clock itself is read again as soon as
// that difference is another one.
type BootClock struct {
	start  time.Time
	offset atomic.Int64 // CLOCK_BOOTTIME less the time since start
	seen   atomic.Int64 // wall clock less the time since start, when offset was read
}

// NewBootClock returns the machine's clock.
func NewBootClock() *BootClock {
	c := &BootClock{start: time.Now()}
	c.read()
	return c
}

// same is how far apart two differences of unchanged clocks are read at most;
// the thread may have been stopped between the two readings.
const same = int64(20 * time.Microsecond)

// Now reads the clock.
func (c *BootClock) Now() core.Time {
	now := time.Now()
	since := int64(now.Sub(c.start))
	if d := now.UnixNano() - since - c.seen.Load(); d > same || d < -same {
		return c.read()
	}
	return core.Time(since + c.offset.Load())
}

// read reads CLOCK_BOOTTIME and the differences. The offset is at most too
// large, by what the reading took: authority ends too early rather than late.
func (c *BootClock) read() core.Time {
	now := time.Now()
	boot := bootTime()
	since := int64(now.Sub(c.start))
	c.offset.Store(int64(boot) - since)
	c.seen.Store(now.UnixNano() - since)
	return boot
}

func bootTime() core.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("node: read CLOCK_BOOTTIME: %v", err)) // without a clock there is no authority
	}
	return core.Time(ts.Nano())
}

// NewTimer returns a timer on the same clock.
func (c *BootClock) NewTimer(fire func()) Timer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		panic(fmt.Sprintf("node: create a timer on CLOCK_BOOTTIME: %v", err))
	}
	t := &bootTimer{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), fire: fire}
	go t.wait()
	return t
}

type bootTimer struct {
	fd    int
	file  *os.File
	fire  func()
	close sync.Once
}

func (t *bootTimer) Set(at core.Time) {
	var spec unix.ItimerSpec // zero disarms
	if at != never {
		spec.Value = unix.NsecToTimespec(max(1, int64(at)))
	}
	if err := unix.TimerfdSettime(t.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic(fmt.Sprintf("node: set a timer on CLOCK_BOOTTIME: %v", err))
	}
}

func (t *bootTimer) Close() { t.close.Do(func() { t.file.Close() }) }

// wait fires until the timer is closed.
func (t *bootTimer) wait() {
	var buf [8]byte
	for {
		if _, err := t.file.Read(buf[:]); err != nil {
			return
		}
		t.fire()
	}
}
