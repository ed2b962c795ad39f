//go:build !tenure_wallskew

package wall

import "time"

func skew() time.Duration { return 0 }
