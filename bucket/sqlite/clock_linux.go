package sqlite

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// newClock is CLOCK_BOOTTIME. Its origin is one boot of one kernel, in one time
// namespace: a container may have its own offset.
func newClock() (clock, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return clock{}, fmt.Errorf("which boot of the machine this is cannot be read (is /proc mounted?): %w", err)
	}
	namespace, err := os.Readlink("/proc/self/ns/time")
	if os.IsNotExist(err) {
		namespace = "none" // a kernel without time namespaces
	} else if err != nil {
		return clock{}, fmt.Errorf("the time namespace cannot be read: %w", err)
	}
	if _, err := bootTime(); err != nil {
		return clock{}, fmt.Errorf("the boot clock cannot be read: %w", err)
	}
	return clock{
		origin: strings.TrimSpace(string(boot)) + " " + namespace,
		nanoseconds: func() int64 {
			t, err := bootTime()
			if err != nil {
				panic("CLOCK_BOOTTIME failed after it had worked: " + err.Error())
			}
			return t
		},
	}, nil
}

func bootTime() (int64, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return t.Nano(), err
}
