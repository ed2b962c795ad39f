package tenure

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/s3"
	"github.com/tenure-go/tenure/bucket/sqlite"
)

// OpenBucket opens the bucket at a URL: sqlite:PATH, or
// s3://NAME[/PREFIX][?endpoint=URL&region=R&path_style=true]. Each call makes a
// client with connections of its own. It does not contact a remote store.
func OpenBucket(ctx context.Context, rawURL string) (bucket.Bucket, error) {
	scheme, rest, ok := strings.Cut(rawURL, ":")
	if !ok {
		return nil, fmt.Errorf("bucket %q: it must begin with sqlite: or s3://", rawURL)
	}
	var b bucket.Bucket
	var err error
	switch scheme {
	case "sqlite":
		b, err = sqlite.Open(rest) // its errors name the path
	case "s3":
		b, err = openS3(ctx, rawURL)
	case "gs", "az":
		err = fmt.Errorf("bucket %q: %s:// is not supported yet", rawURL, scheme)
	default:
		err = fmt.Errorf("bucket %q: it must begin with sqlite: or s3://", rawURL)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func openS3(ctx context.Context, rawURL string) (bucket.Bucket, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("bucket %q: %w", rawURL, err)
	}
	if u.User != nil || u.Port() != "" || u.Fragment != "" {
		return nil, fmt.Errorf("bucket %q: only a name, a prefix and parameters are allowed; credentials come from the AWS environment", u.Redacted())
	}
	o := s3.Options{Bucket: u.Host, Prefix: u.Path}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("bucket %q: %w", rawURL, err)
	}
	for name, values := range q {
		switch name {
		case "endpoint":
			o.Endpoint = values[0]
		case "region":
			o.Region = values[0]
		case "path_style":
			if o.PathStyle, err = strconv.ParseBool(values[0]); err != nil {
				return nil, fmt.Errorf("bucket s3://%s: path_style must be true or false", u.Host)
			}
		default:
			return nil, fmt.Errorf("bucket s3://%s: unknown parameter %q; known are endpoint, region and path_style", u.Host, name)
		}
	}
	b, err := s3.Open(ctx, o)
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
