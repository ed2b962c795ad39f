//go:build tenure_wallskew

package wall

import (
	"os"
	"sync"
	"time"
)

// skew is how wrong the clock is: TENURE_TEST_WALL_SKEW, such as -1h.
var skew = sync.OnceValue(func() time.Duration {
	d, err := time.ParseDuration(os.Getenv("TENURE_TEST_WALL_SKEW"))
	if err != nil {
		return 0
	}
	return d
})
