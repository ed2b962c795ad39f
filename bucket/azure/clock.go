package azure

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/tenure-go/tenure/internal/exchange"
)

// clock corrects this machine's clock by the store's: what is signed with an
// account key by a clock that is a quarter of an hour off is refused.
type clock struct{ ahead atomic.Int64 } // how far the store's is, in nanoseconds

// tolerance is what needs no correction.
const tolerance = 5 * time.Minute

// Do implements policy.Policy. It comes before the one that signs.
func (c *clock) Do(r *policy.Request) (*http.Response, error) {
	if ahead := time.Duration(c.ahead.Load()); ahead != 0 {
		// In small letters: so the signing policy looks for it.
		r.Raw().Header["x-ms-date"] = []string{time.Now().Add(ahead).UTC().Format(http.TimeFormat)}
	}
	return r.Next()
}

// learn takes note of the store's time; true: it was not known to be so far off.
func (c *clock) learn(date time.Time) bool {
	ahead := time.Until(date)
	if date.IsZero() || (ahead-time.Duration(c.ahead.Load())).Abs() < tolerance {
		return false
	}
	c.ahead.Store(int64(ahead))
	return true
}

// send performs one operation without retries, except after an answer that shows
// that the clock was too wrong: the store refused.
func (b *Bucket) send(ctx context.Context, op func(context.Context) error) (*exchange.Exchange, error) {
	watched, x := exchange.Watch(ctx)
	err := op(watched)
	if x.Status == http.StatusForbidden && code(x) == "AuthenticationFailed" && b.clock.learn(x.Date()) {
		watched, x = exchange.Watch(ctx)
		err = op(watched)
	}
	return x, err
}
