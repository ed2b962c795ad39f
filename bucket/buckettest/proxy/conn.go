package proxy

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

type usesKey struct{}

// withUses gives a connection its count of requests.
func withUses(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, usesKey{}, new(atomic.Int64))
}

// uses counts the requests of the connection that this one came by.
func uses(r *http.Request) *atomic.Int64 {
	n, ok := r.Context().Value(usesKey{}).(*atomic.Int64)
	if !ok {
		return new(atomic.Int64)
	}
	return n
}

// contextWithout does not end with the connection.
func contextWithout(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }
