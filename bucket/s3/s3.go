// Package s3 is a bucket in Amazon S3, or in a store that speaks its protocol
// with conditional writes.
//
// Lists must be in the byte order of keys, which S3's directory buckets do not
// give.
package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/internal/exchange"
)

// Options say which bucket to open.
type Options struct {
	Bucket string
	// Prefix is put before every key, with a slash between; it may be empty.
	Prefix string
	// Endpoint is the URL of a store other than Amazon's. Empty: as the AWS
	// environment and configuration files say.
	Endpoint string
	// Region is empty for what the environment and configuration files say. A
	// store with an Endpoint needs none.
	Region string
	// PathStyle puts the bucket's name into the path and not into the host name.
	PathStyle bool
	// AccessKeyID and SecretAccessKey are empty for the usual AWS chain:
	// environment, configuration files, web identity, container, instance.
	AccessKeyID, SecretAccessKey string
}

// Bucket is one client of one bucket. It implements bucket.Bucket.
type Bucket struct {
	client *s3.Client
	http   *exchange.Client
	name   string
	prefix string // empty, or ends in a slash
	etags  etags
}

var _ bucket.Bucket = (*Bucket)(nil)

// Open makes a client with its own connections. It does not contact the store.
func Open(ctx context.Context, o Options) (*Bucket, error) {
	prefix := strings.Trim(o.Prefix, "/")
	if err := check(o, prefix); err != nil {
		return nil, err
	}
	cfg, err := load(ctx, o)
	if err != nil {
		return nil, err
	}
	connections := exchange.NewClient()
	client := s3.NewFromConfig(cfg, func(c *s3.Options) {
		c.HTTPClient = consistent{connections}
		c.UsePathStyle = o.PathStyle
		if o.Endpoint != "" {
			c.BaseEndpoint = aws.String(o.Endpoint)
		}
		// Reads are tried again by package pace, for all clients together.
		c.Retryer = aws.NopRetryer{}
		// Other stores do not know the checksums that S3 added later.
		c.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		c.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		c.DisableLogOutputChecksumValidationSkipped = true
	})
	if prefix != "" {
		prefix += "/"
	}
	return &Bucket{client: client, http: connections, name: o.Bucket, prefix: prefix}, nil
}

func check(o Options, prefix string) error {
	if o.Bucket == "" {
		return errors.New("the S3 bucket has no name; write s3://NAME")
	}
	if prefix != "" {
		if err := bucket.CheckKey(prefix); err != nil {
			return fmt.Errorf("prefix of s3://%s: %w", o.Bucket, err)
		}
	}
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("endpoint %q of s3://%s is not a URL such as https://HOST:PORT", o.Endpoint, o.Bucket)
		}
	}
	if (o.AccessKeyID == "") != (o.SecretAccessKey == "") {
		return fmt.Errorf("s3://%s: an access key id needs its secret, and the reverse", o.Bucket)
	}
	return nil
}

func load(ctx context.Context, o Options) (aws.Config, error) {
	// What matters is in the errors; the SDK would write to the process's stderr.
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if o.Region != "" {
		options = append(options, config.WithRegion(o.Region))
	}
	if o.AccessKeyID != "" {
		static := credentials.NewStaticCredentialsProvider(o.AccessKeyID, o.SecretAccessKey, "")
		options = append(options, config.WithCredentialsProvider(static))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return cfg, fmt.Errorf("s3://%s: AWS configuration: %w", o.Bucket, err)
	}
	cfg.Credentials = chain{cfg.Credentials}
	if cfg.Region == "" && o.Endpoint != "" {
		cfg.Region = "us-east-1" // goes into signatures only
	}
	if cfg.Region == "" {
		return cfg, fmt.Errorf("s3://%s: which region? Set AWS_REGION, or add ?region=R to the bucket", o.Bucket)
	}
	return cfg, nil
}

// chain says what was looked for, where the SDK's chain finds nothing.
type chain struct{ aws.CredentialsProvider }

func (c chain) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		err = fmt.Errorf("no AWS credentials in the environment, the profile (AWS_PROFILE), or from a web identity, container or instance role: %w", err)
	}
	return found, err
}

// errTorn is a read that gave the version of one write with the body of
// another.
var errTorn = errors.New("the body does not match its ETag: a torn read")

// Get implements bucket.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (bucket.Object, error) {
	if err := bucket.CheckRead(ctx, b.prefix+key); err != nil {
		return bucket.Object{}, err
	}
	// A torn read comes of a write at the same moment; another read helps.
	var (
		o   bucket.Object
		err error
	)
	for range 3 {
		if o, err = b.get(ctx, key); !errors.Is(err, errTorn) {
			break
		}
	}
	if err != nil {
		return bucket.Object{}, b.explain("read", key, err)
	}
	return o, nil
}

func (b *Bucket) get(ctx context.Context, key string) (bucket.Object, error) {
	var out *s3.GetObjectOutput
	x, err := sendOnce(ctx, func(ctx context.Context, once func(*s3.Options)) (err error) {
		out, err = b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: b.key(key)}, once)
		return err
	})
	if err != nil {
		return bucket.Object{}, readError(x, err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(io.LimitReader(out.Body, bucket.MaxBody+1))
	if err == nil {
		err = bucket.CheckBody(key, int64(len(body)))
	}
	if err != nil {
		return bucket.Object{}, err
	}
	o := bucket.Object{Body: body, Version: bucket.Version(aws.ToString(out.ETag))}
	o.Date, o.Modified = x.Date(), aws.ToTime(out.LastModified)
	return o, errors.Join(
		x.NotCached(),
		hasETag(out.ETag),
		b.etags.verify(body, o.Version, x.Header),
	)
}

// Create implements bucket.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if err := bucket.CheckWrite(ctx, b.prefix+key, body); err != nil {
		return bucket.Written{}, err
	}
	return b.put(ctx, create, key, s3.PutObjectInput{IfNoneMatch: aws.String("*")}, body)
}

// Replace implements bucket.Bucket.
func (b *Bucket) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	if err := bucket.CheckReplace(ctx, b.prefix+key, body, v); err != nil {
		return bucket.Written{}, err
	}
	return b.put(ctx, replace, key, s3.PutObjectInput{IfMatch: aws.String(string(v))}, body)
}

func (b *Bucket) put(ctx context.Context, kind write, key string, in s3.PutObjectInput, body []byte) (bucket.Written, error) {
	in.Bucket, in.Key = &b.name, b.key(key)
	in.CacheControl = aws.String("no-store")
	var out *s3.PutObjectOutput
	x, err := sendOnce(ctx, func(ctx context.Context, once func(*s3.Options)) (err error) {
		in.Body = bytes.NewReader(body)
		out, err = b.client.PutObject(ctx, &in, once)
		return err
	})
	if err != nil {
		return bucket.Written{}, b.explain(string(kind), key, writeError(kind, x, err))
	}
	// Either of these makes the outcome ambiguous.
	if err := errors.Join(x.NotCached(), hasETag(out.ETag)); err != nil {
		return bucket.Written{}, b.explain(string(kind), key, err)
	}
	w := bucket.Written{Version: bucket.Version(*out.ETag), Date: x.Date()}
	b.etags.learn(body, w.Version, x.Header)
	return w, nil
}

// Delete implements bucket.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := bucket.CheckWrite(ctx, b.prefix+key, nil); err != nil {
		return err
	}
	x, err := sendOnce(ctx, func(ctx context.Context, once func(*s3.Options)) error {
		_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: b.key(key)}, once)
		return err
	})
	if err != nil {
		err = writeError(remove, x, err)
	}
	if err != nil && !errors.Is(err, bucket.ErrConflict) {
		return b.explain("delete", key, err)
	}
	return nil // an absent object included
}

// List implements bucket.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	if err := ctx.Err(); err != nil {
		return bucket.Listing{}, err
	}
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: b.key(prefix), MaxKeys: aws.Int32(int32(bucket.PageLimit(limit)))}
	if after != "" {
		in.StartAfter = b.key(after)
	}
	var out *s3.ListObjectsV2Output
	x, err := sendOnce(ctx, func(ctx context.Context, once func(*s3.Options)) (err error) {
		out, err = b.client.ListObjectsV2(ctx, in, once)
		return err
	})
	if err != nil {
		return bucket.Listing{}, b.explain("list", prefix, readError(x, err))
	}
	l, err := b.page(out, prefix, after)
	if err = errors.Join(x.NotCached(), err); err != nil {
		return bucket.Listing{}, b.explain("list", prefix, err)
	}
	return l, nil
}

// page checks a listing: a page that is empty for a wrong reason would make
// every other node look absent.
func (b *Bucket) page(out *s3.ListObjectsV2Output, prefix, after string) (bucket.Listing, error) {
	if out.Name == nil && out.KeyCount == nil && out.IsTruncated == nil {
		return bucket.Listing{}, errors.New("the answer is not a listing")
	}
	var l bucket.Listing
	last := after
	for _, object := range out.Contents {
		key, ours := strings.CutPrefix(aws.ToString(object.Key), b.prefix)
		if !ours || !strings.HasPrefix(key, prefix) {
			return bucket.Listing{}, fmt.Errorf("key %q does not have the prefix asked for", aws.ToString(object.Key))
		}
		if key <= last {
			return bucket.Listing{}, fmt.Errorf("key %q came after %q: not in byte order", key, last)
		}
		l.Keys = append(l.Keys, key)
		last = key
	}
	if aws.ToBool(out.IsTruncated) {
		if len(l.Keys) == 0 {
			return bucket.Listing{}, errors.New("a page with more to follow has no keys")
		}
		l.Next = last
	}
	return l, nil
}

// Traits implements bucket.Bucket. HTTP dates are in seconds.
func (b *Bucket) Traits() bucket.Traits {
	return bucket.Traits{Rounding: time.Second, BodyVersions: b.etags.fromBodies()}
}

// Fresh implements bucket.Bucket.
func (b *Bucket) Fresh() { b.http.CloseIdle() }

// Close implements bucket.Bucket.
func (b *Bucket) Close() error {
	b.http.CloseIdle()
	return nil
}

func (b *Bucket) key(key string) *string { return aws.String(b.prefix + key) }

func (b *Bucket) explain(verb, key string, err error) error {
	return fmt.Errorf("%s s3://%s/%s: %w", verb, b.name, b.prefix+key, err)
}

func hasETag(etag *string) error {
	if cmp.Or(aws.ToString(etag), `""`) == `""` {
		return errors.New("the answer has no ETag")
	}
	return nil
}
