package tenure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/azure"
	"github.com/tenure-go/tenure/bucket/gcs"
	"github.com/tenure-go/tenure/bucket/s3"
	"github.com/tenure-go/tenure/bucket/sqlite"
)

// OpenBucket opens the bucket at a URL:
//
//	sqlite:PATH
//	s3://NAME[/PREFIX][?endpoint=URL&region=R&path_style=true]
//	gs://NAME[/PREFIX]
//	az://CONTAINER[/PREFIX][?account=NAME&endpoint=URL]
//
// Credentials come from the environment, as the store's own tools take them.
// Each call makes a client with connections of its own. It does not contact a
// remote store.
func OpenBucket(ctx context.Context, rawURL string) (b bucket.Bucket, err error) {
	scheme, rest, _ := strings.Cut(rawURL, ":")
	switch scheme {
	case "sqlite":
		b, err = sqlite.Open(rest) // its errors name the path
	case "s3":
		b, err = openS3(ctx, rawURL)
	case "gs":
		b, err = openGCS(ctx, rawURL)
	case "az":
		b, err = openAzure(rawURL)
	default:
		err = fmt.Errorf("bucket %q: it must begin with sqlite:, s3://, gs:// or az://", rawURL)
	}
	if err != nil {
		return nil, err // and no adapter's nil pointer in an interface
	}
	return b, nil
}

// remote is a bucket's URL, taken apart.
type remote struct{ name, prefix string }

// parseRemote gives each parameter of the URL to the function of its name.
func parseRemote(rawURL string, parameters map[string]func(string) error) (remote, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return remote{}, fmt.Errorf("bucket %q: %w", rawURL, err)
	}
	if u.User != nil || u.Port() != "" || u.Fragment != "" || u.Opaque != "" {
		return remote{}, fmt.Errorf("bucket %q: only a name, a prefix and parameters are allowed, as in %s://NAME/PREFIX; credentials come from the environment", u.Redacted(), u.Scheme)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return remote{}, fmt.Errorf("bucket %q: %w", rawURL, err)
	}
	for name, values := range q {
		set, known := parameters[name]
		if !known {
			return remote{}, fmt.Errorf("bucket %s://%s: unknown parameter %q; known are: %s", u.Scheme, u.Host, name,
				cmp.Or(strings.Join(slices.Sorted(maps.Keys(parameters)), ", "), "none"))
		}
		if err := set(values[0]); err != nil {
			return remote{}, fmt.Errorf("bucket %s://%s: %w", u.Scheme, u.Host, err)
		}
	}
	return remote{u.Host, u.Path}, nil
}

func text(into *string) func(string) error {
	return func(s string) error {
		*into = s
		return nil
	}
}

func openS3(ctx context.Context, rawURL string) (*s3.Bucket, error) {
	var o s3.Options
	r, err := parseRemote(rawURL, map[string]func(string) error{
		"endpoint": text(&o.Endpoint),
		"region":   text(&o.Region),
		"path_style": func(s string) (err error) {
			if o.PathStyle, err = strconv.ParseBool(s); err != nil {
				return errors.New("path_style must be true or false")
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	o.Bucket, o.Prefix = r.name, r.prefix
	b, err := s3.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("bucket %q: %w", rawURL, err)
	}
	return b, nil
}

func openGCS(ctx context.Context, rawURL string) (*gcs.Bucket, error) {
	r, err := parseRemote(rawURL, nil)
	if err != nil {
		return nil, err
	}
	b, err := gcs.Open(ctx, gcs.Options{Bucket: r.name, Prefix: r.prefix})
	if err != nil {
		return nil, fmt.Errorf("bucket %q: %w", rawURL, err)
	}
	return b, nil
}

func openAzure(rawURL string) (*azure.Bucket, error) {
	var o azure.Options
	r, err := parseRemote(rawURL, map[string]func(string) error{
		"account": text(&o.Account), "endpoint": text(&o.Endpoint),
	})
	if err != nil {
		return nil, err
	}
	o.Container, o.Prefix = r.name, r.prefix
	b, err := azure.Open(o)
	if err != nil {
		return nil, fmt.Errorf("bucket %q: %w", rawURL, err)
	}
	return b, nil
}

// leaseURL is where leases live unless it is said otherwise. SQLite has one
// write lock per file, so they live in a second file: claims must not delay
// renewals.
func leaseURL(bucketURL, leaseBucket string) string {
	switch {
	case leaseBucket != "":
		return leaseBucket
	case strings.HasPrefix(bucketURL, "sqlite:"):
		return bucketURL + "-leases"
	}
	return bucketURL
}

// buckets are the handles of one node: see node.Config.
type buckets struct {
	cells, lease, leases bucket.Bucket
	paces                paces
}

func openBuckets(ctx context.Context, bucketURL, leaseBucket string) (bs buckets, err error) {
	leases := leaseURL(bucketURL, leaseBucket)
	for _, h := range []struct {
		b   *bucket.Bucket
		url string
	}{{&bs.cells, bucketURL}, {&bs.lease, leases}, {&bs.leases, leases}} {
		if *h.b, err = OpenBucket(ctx, h.url); err != nil {
			bs.close()
			return buckets{}, err
		}
	}
	return bs.paced(leases == bucketURL), nil
}

func (bs buckets) close() {
	for _, b := range []bucket.Bucket{bs.cells, bs.lease, bs.leases} {
		if b != nil {
			b.Close()
		}
	}
}
