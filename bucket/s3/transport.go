package s3

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// newPool is a connection pool that is shared with nobody, so that the traffic
// of one bucket never waits for that of another.
func newPool() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	// HTTP/1 only: one connection is one request at a time, so that a dead
	// connection costs no more than that, and nothing is replayed.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true,
		Protocols:           &protocols,
	}
}

// newClient follows no redirects: a write must be sent once.
func newClient(pool *http.Transport) *http.Client {
	return &http.Client{
		Transport:     transport{pool},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// transport notes in the request's exchange what happens to it.
type transport struct{ pool *http.Transport }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if consistentOnDemand(r.URL.Hostname()) {
		r = r.Clone(r.Context())
		r.Header.Set("X-Tigris-Consistent", "true")
	}
	answer, err := t.pool.RoundTrip(r)
	if x, ok := r.Context().Value(exchangeKey{}).(*exchange); ok && err == nil {
		x.status, x.header = answer.StatusCode, answer.Header
	}
	return answer, err
}

// consistentOnDemand recognizes Tigris, which reads from the nearest replica
// and decides conditions there unless asked not to.
func consistentOnDemand(host string) bool {
	return strings.Contains(host, "tigris") || strings.HasSuffix(host, ".storage.dev")
}

// exchange is what is known of a request, and of its last answer.
type exchange struct {
	// sent is false for as long as no connection was there to write to, and so
	// nothing can have reached the store.
	sent   atomic.Bool
	status int // 0 without an answer
	header http.Header
}

type exchangeKey struct{}

// watch returns a context whose request is noted in the exchange.
func watch(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { x.sent.Store(true) },
	})
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// sendOnce performs one operation without retries, except after an answer that the
// clock was too wrong: the store refused, and the client has set its clock by
// that answer.
func sendOnce(ctx context.Context, op func(context.Context, func(*s3.Options)) error) (*exchange, error) {
	once := func(o *s3.Options) { o.Retryer = aws.NopRetryer{} }
	watched, x := watch(ctx)
	err := op(watched, once)
	if errorCode(err) == "RequestTimeTooSkewed" && x.status == http.StatusForbidden {
		watched, x = watch(ctx)
		err = op(watched, once)
	}
	return x, err
}

// date is the store's stamp of the answer, or zero.
func (x *exchange) date() time.Time {
	t, err := http.ParseTime(x.header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t
}

// notCached is an error if the answer is not the store's own.
func (x *exchange) notCached() error {
	if x.header.Get("Age") != "" {
		return errors.New("the answer came from a cache (it has an Age header); nothing may cache between this node and the store")
	}
	return nil
}
