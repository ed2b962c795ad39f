//go:build unix

package e2e

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-go/tenure"
	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/azure"
	wire "github.com/tenure-go/tenure/bucket/buckettest/proxy"
	"github.com/tenure-go/tenure/bucket/gcs"
	"github.com/tenure-go/tenure/bucket/s3"
	"github.com/tenure-go/tenure/internal/azserver"
	"github.com/tenure-go/tenure/internal/gcsserver"
	"github.com/tenure-go/tenure/internal/s3server"
)

// place is a fleet's bucket: how a node is told of it, and what is in it.
type place struct {
	url           string
	env           []string
	cells, leases bucket.Bucket
	path          string           // of the file of cells, for sqlite
	server        *s3server.Server // for S3
	endpoint      string           // URL of the store's server; empty for sqlite
	proxied       []wire.Option    // how a proxy before it passes requests on
}

type store struct {
	name string
	open func(*testing.T) place
}

var stores = []store{
	{"sqlite", openSQLite},
	{"s3", openS3},
	{"gcs", openGCS},
	{"azure", openAzure},
}

// onEveryStore runs a scenario on each store, at the same time: mostly they
// wait.
func onEveryStore(t *testing.T, scenario func(t *testing.T, p place)) {
	for _, s := range stores {
		if s.name != only && (only != "" || s.name == "gcs" || s.name == "azure") {
			continue // see TestOnOtherStores
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			scenario(t, s.open(t))
		})
	}
}

func openSQLite(t *testing.T) place {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	p := place{url: "sqlite:" + path, path: path}
	p.cells, p.leases = opened(t, p.url), opened(t, p.url+"-leases")
	return p
}

func opened(t *testing.T, url string) bucket.Bucket {
	t.Helper()
	b, err := tenure.OpenBucket(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func openS3(t *testing.T) place {
	t.Helper()
	server := s3server.Start(t)
	b := openedS3(t, server.Options())
	return place{url: server.URL(), env: server.Env(), cells: b, leases: b, server: server, endpoint: server.Endpoint}
}

func openGCS(t *testing.T) place {
	t.Helper()
	server := gcsserver.Start(t)
	b, err := gcs.Open(t.Context(), server.Options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return place{url: server.URL(), env: server.Env(), cells: b, leases: b, endpoint: server.Endpoint, proxied: []wire.Option{wire.ToTarget}}
}

func openAzure(t *testing.T) place {
	t.Helper()
	server := azserver.Start(t)
	b, err := azure.Open(server.Options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return place{url: server.URL(), env: server.Env(), cells: b, leases: b, endpoint: server.Endpoint}
}

func openedS3(t *testing.T, o s3.Options) bucket.Bucket {
	t.Helper()
	b, err := s3.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// counted is the same place, reached through a proxy that counts.
func (p place) counted(t *testing.T) (place, *wire.Proxy) {
	t.Helper()
	x := wire.Start(t, p.endpoint, p.proxied...)
	p.url = strings.ReplaceAll(p.url, url.QueryEscape(p.endpoint), url.QueryEscape(x.URL))
	p.env = slices.Clone(p.env)
	for i := range p.env {
		p.env[i] = strings.ReplaceAll(p.env[i], p.endpoint, x.URL)
	}
	return p, x
}

// through is the same place, reached through the proxy.
func (p place) through(t *testing.T, x *proxy) place {
	t.Helper()
	p.url = (&s3server.Server{Endpoint: x.url, Bucket: p.server.Bucket}).URL()
	return p
}

// fakeS3 is an S3 server that checks no signature, so that a proxy in front of it
// can change requests.
func fakeS3(t *testing.T) (endpoint string, p place) {
	t.Helper()
	server := s3server.StartFake(t)
	b := openedS3(t, server.Options())
	return server.Endpoint, place{url: server.URL(), env: server.Env(), cells: b, leases: b, server: server}
}

// record is an object's body; empty if there is none.
func record(t *testing.T, b bucket.Bucket, key string) string {
	t.Helper()
	return string(object(t, b, key).Body)
}

func object(t *testing.T, b bucket.Bucket, key string) bucket.Object {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startUp)
	defer cancel()
	o, err := b.Get(ctx, key)
	if err != nil {
		t.Errorf("read %s: %v", key, err)
	}
	return o
}

// keys lists everything under a prefix.
func keys(t *testing.T, b bucket.Bucket, prefix string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startUp)
	defer cancel()
	l, err := b.List(ctx, prefix, "", 0)
	if err != nil {
		t.Fatalf("list %s: %v", prefix, err)
	}
	return l.Keys
}

func ownKey(cell string) string   { return "cells/" + cell + "/own.json" }
func leaseKey(node string) string { return "nodes/" + node + ".json" }
