package azure

import "time"

// SetAhead makes the client believe that the store's clock is that far ahead.
func (b *Bucket) SetAhead(d time.Duration) { b.clock.ahead.Store(int64(d)) }
