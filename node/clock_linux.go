package node

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tenure-go/tenure/core"
)

// BootClock is CLOCK_BOOTTIME: unlike Go's own monotonic clock, and its
// timers, it keeps counting while the machine is suspended.
type BootClock struct{}

// Now reads the clock.
func (BootClock) Now() core.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("node: read CLOCK_BOOTTIME: %v", err)) // without a clock there is no authority
	}
	return core.Time(ts.Nano())
}

// NewTimer returns a timer on the same clock.
func (BootClock) NewTimer() Timer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		panic(fmt.Sprintf("node: create a timer on CLOCK_BOOTTIME: %v", err))
	}
	t := &bootTimer{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), c: make(chan struct{}, 1)}
	go t.wait()
	return t
}

type bootTimer struct {
	fd    int
	file  *os.File
	c     chan struct{}
	close sync.Once
}

func (t *bootTimer) C() <-chan struct{} { return t.c }

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

// wait passes expiries on until the timer is closed.
func (t *bootTimer) wait() {
	var buf [8]byte
	for {
		if _, err := t.file.Read(buf[:]); err != nil {
			return
		}
		if len(t.c) == 0 { // only this goroutine sends
			t.c <- struct{}{}
		}
	}
}
