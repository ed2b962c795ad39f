package s3

import (
	"context"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tenure-go/tenure/internal/exchange"
)

// consistent asks stores for consistent answers that give others unless asked.
type consistent struct{ *exchange.Client }

func (c consistent) Do(r *http.Request) (*http.Response, error) {
	if consistentOnDemand(r.URL.Hostname()) {
		r.Header.Set("X-Tigris-Consistent", "true")
	}
	return c.Client.Do(r)
}

// consistentOnDemand recognizes Tigris, which reads from the nearest replica
// and decides conditions there unless asked not to.
func consistentOnDemand(host string) bool {
	return strings.Contains(host, "tigris") || strings.HasSuffix(host, ".storage.dev")
}

// sendOnce performs one operation without retries, except after an answer that the
// clock was too wrong: the store refused, and the client has set its clock by
// that answer.
func sendOnce(ctx context.Context, op func(context.Context, func(*s3.Options)) error) (*exchange.Exchange, error) {
	once := func(o *s3.Options) { o.Retryer = aws.NopRetryer{} }
	watched, x := exchange.Watch(ctx)
	err := op(watched, once)
	if errorCode(err) == "RequestTimeTooSkewed" && x.Status == http.StatusForbidden {
		watched, x = exchange.Watch(ctx)
		err = op(watched, once)
	}
	return x, err
}
