//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// proxy stands in front of an S3 server, and is what is wrong with it.
type proxy struct {
	url string
	// unconditional drops the conditions of writes.
	unconditional bool
	// noSuchKey answers so to every create of an absent object.
	noSuchKey bool
	// readOnly refuses every write.
	readOnly bool
	// down breaks every connection off.
	down atomic.Bool
	// fault, if there is one, deals with every request.
	fault atomic.Pointer[fault]

	cellRequests atomic.Int64 // for ownership records
	requests     atomic.Int64
}

// fault answers a request in the server's place, or lets the server.
type fault func(w http.ResponseWriter, r *http.Request, server http.Handler)

// set begins a fault; nil ends it.
func (x *proxy) set(f fault) {
	if f == nil {
		x.fault.Store(nil)
		return
	}
	x.fault.Store(&f)
}

// start puts the proxy in front of a server.
func (x *proxy) start(t *testing.T, endpoint string) *proxy {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		r.Out.Host = r.In.Host // it is signed
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.serve(w, r, pass)
	}))
	t.Cleanup(server.Close)
	x.url = server.URL
	return x
}

func (x *proxy) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	x.requests.Add(1)
	if strings.Contains(r.URL.Path, "/cells/") || strings.HasPrefix(r.URL.Query().Get("prefix"), "cells/") {
		x.cellRequests.Add(1)
	}
	switch {
	case x.down.Load():
		panic(http.ErrAbortHandler)
	case x.readOnly && r.Method != http.MethodGet && r.Method != http.MethodHead:
		fail(w, http.StatusForbidden, "AccessDenied")
		return
	case x.noSuchKey && r.Header.Get("If-None-Match") != "":
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	case x.unconditional:
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
	}
	if f := x.fault.Load(); f != nil {
		(*f)(w, r, next)
		return
	}
	next.ServeHTTP(w, r)
}

// fail answers as S3 does.
func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, code)
}
