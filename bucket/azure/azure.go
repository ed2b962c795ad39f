// Package azure is a bucket in a container of Azure Blob Storage.
//
// Lists must be in the byte order of keys, which accounts with a hierarchical
// namespace do not give.
package azure

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/internal/exchange"
)

// Bucket is one client of one container. It implements bucket.Bucket.
type Bucket struct {
	client *container.Client
	http   *exchange.Client
	clock  clock
	name   string
	prefix string // empty, or ends in a slash
}

var _ bucket.Bucket = (*Bucket)(nil)

// Get implements bucket.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (bucket.Object, error) {
	if err := bucket.CheckRead(ctx, b.prefix+key); err != nil {
		return bucket.Object{}, err
	}
	o, err := b.get(ctx, key)
	if err != nil {
		return bucket.Object{}, b.explain("read", key, err)
	}
	return o, nil
}

func (b *Bucket) get(ctx context.Context, key string) (bucket.Object, error) {
	var out blob.DownloadStreamResponse
	x, err := b.send(ctx, func(ctx context.Context) (err error) {
		out, err = b.blob(key).DownloadStream(ctx, nil)
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
	o := bucket.Object{Body: body, Version: version(out.ETag)}
	o.Date, o.Modified = x.Date(), x.Modified()
	return o, errors.Join(x.NotCached(), hasVersion(o.Version), verify(body, x.Header))
}

// verify compares the body with the MD5 that the store has for it.
func verify(body []byte, header http.Header) error {
	sum := md5.Sum(body)
	if want := header.Get("Content-MD5"); want != "" && want != base64.StdEncoding.EncodeToString(sum[:]) {
		return errors.New("the body does not match its Content-MD5: a torn read")
	}
	return nil
}

// Create implements bucket.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if err := bucket.CheckWrite(ctx, b.prefix+key, body); err != nil {
		return bucket.Written{}, err
	}
	return b.put(ctx, create, key, body, blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)})
}

// Replace implements bucket.Bucket.
func (b *Bucket) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	if err := bucket.CheckReplace(ctx, b.prefix+key, body, v); err != nil {
		return bucket.Written{}, err
	}
	return b.put(ctx, replace, key, body, blob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(v))})
}

func (b *Bucket) put(ctx context.Context, kind write, key string, body []byte, when blob.ModifiedAccessConditions) (bucket.Written, error) {
	options := &blockblob.UploadOptions{
		HTTPHeaders:      &blob.HTTPHeaders{BlobCacheControl: to.Ptr("no-store"), BlobContentType: to.Ptr("application/json")},
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &when},
	}
	var out blockblob.UploadResponse
	x, err := b.send(ctx, func(ctx context.Context) (err error) {
		out, err = b.blob(key).Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), options)
		return err
	})
	if err != nil {
		return bucket.Written{}, b.explain(string(kind), key, writeError(kind, x, err))
	}
	w := bucket.Written{Version: version(out.ETag), Date: x.Date()}
	// Either of these makes the outcome ambiguous.
	if err := errors.Join(x.NotCached(), hasVersion(w.Version)); err != nil {
		return bucket.Written{}, b.explain(string(kind), key, err)
	}
	return w, nil
}

// Delete implements bucket.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := bucket.CheckWrite(ctx, b.prefix+key, nil); err != nil {
		return err
	}
	x, err := b.send(ctx, func(ctx context.Context) error {
		_, err := b.blob(key).Delete(ctx, nil)
		return err
	})
	if err != nil {
		if err = writeError(remove, x, err); !errors.Is(err, bucket.ErrConflict) { // it is absent
			return b.explain("delete", key, err)
		}
	}
	return nil
}

// List implements bucket.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	if err := ctx.Err(); err != nil {
		return bucket.Listing{}, err
	}
	limit = bucket.PageLimit(limit)
	options := &container.ListBlobsFlatOptions{Prefix: to.Ptr(b.prefix + prefix), MaxResults: to.Ptr(int32(limit))}
	if after > prefix {
		// It includes the object named, which then takes one place on the page.
		options.StartFrom = to.Ptr(b.prefix + after)
	}
	for {
		l, next, err := b.page(ctx, options, prefix, after)
		if err != nil {
			return bucket.Listing{}, b.explain("list", prefix, err)
		}
		if next == "" {
			return l, nil
		}
		if len(l.Keys) > 0 {
			l.Next = l.Keys[len(l.Keys)-1]
			return l, nil
		}
		options.Marker = &next // an empty page with more to follow
	}
}

// page reads and checks one page: one that is wrong would make nodes look
// absent. Keys up to after are left out.
func (b *Bucket) page(ctx context.Context, options *container.ListBlobsFlatOptions, prefix, after string) (l bucket.Listing, next string, err error) {
	var out container.ListBlobsFlatResponse
	x, err := b.send(ctx, func(ctx context.Context) (err error) {
		out, err = b.client.NewListBlobsFlatPager(options).NextPage(ctx)
		return err
	})
	if err != nil {
		return l, "", readError(x, err)
	}
	if err := x.NotCached(); err != nil {
		return l, "", err
	}
	if out.Segment == nil || out.ContainerName == nil {
		return l, "", errors.New("the answer is not a listing")
	}
	last := ""
	for _, item := range out.Segment.BlobItems {
		name := ""
		if item.Name != nil {
			name = *item.Name
		}
		key, ours := strings.CutPrefix(name, b.prefix)
		if !ours || !strings.HasPrefix(key, prefix) {
			return l, "", fmt.Errorf("key %q does not have the prefix asked for", name)
		}
		if key <= last {
			return l, "", fmt.Errorf("key %q came after %q: not in byte order", key, last)
		}
		if last = key; key > after {
			l.Keys = append(l.Keys, key)
		}
	}
	if out.NextMarker != nil {
		next = *out.NextMarker
	}
	return l, next, nil
}

// Traits implements bucket.Bucket. HTTP dates are in seconds.
func (b *Bucket) Traits() bucket.Traits { return bucket.Traits{Rounding: time.Second} }

// Fresh implements bucket.Bucket.
func (b *Bucket) Fresh() { b.http.CloseIdle() }

// Close implements bucket.Bucket.
func (b *Bucket) Close() error {
	b.http.CloseIdle()
	return nil
}

func (b *Bucket) blob(key string) *blockblob.Client {
	return b.client.NewBlockBlobClient(b.prefix + key)
}

func (b *Bucket) explain(verb, key string, err error) error {
	return fmt.Errorf("%s az://%s/%s: %w", verb, b.name, b.prefix+key, err)
}

// version is an ETag as the store wrote it, its quotes included.
func version(etag *azcore.ETag) bucket.Version {
	if etag == nil || *etag == `""` {
		return ""
	}
	return bucket.Version(*etag)
}

func hasVersion(v bucket.Version) error {
	if v == "" {
		return errors.New("the answer has no ETag")
	}
	return nil
}
