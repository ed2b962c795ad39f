// Package wall is the wall clock. Nothing decides by it: it is for display.
// Built with the tag tenure_wallskew it can be set wrong, to prove that.
package wall

import "time"

// Now is the wall clock's time.
func Now() time.Time { return time.Now().Add(skew()) }
