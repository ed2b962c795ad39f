// Package gcs is a bucket in Google Cloud Storage. It speaks to the service over
// plain HTTP, as Google's client would make the program several times as large:
// reads by the XML API, whose errors tell a missing object from a missing
// bucket, and everything else by the JSON API, which has conditions on
// generations.
package gcs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/internal/exchange"
)

// Options say which bucket to open.
type Options struct {
	Bucket string
	// Prefix is put before every key, with a slash between; it may be empty.
	Prefix string
	// Emulator is the URL, or HOST:PORT, of an emulator, which is asked without
	// credentials. Empty: what STORAGE_EMULATOR_HOST says, else Google's service,
	// with Application Default Credentials.
	Emulator string
}

const service = "https://storage.googleapis.com"

// minTTL is the least lease TTL: the service takes about one write of an object
// per second, and a lease is written every third of a TTL.
const minTTL = 5 * time.Second

// Bucket is one client of one bucket. It implements bucket.Bucket.
type Bucket struct {
	http   *exchange.Client
	tokens *tokens // nil for an emulator
	base   string  // URL, without a slash at the end
	name   string
	prefix string // empty, or ends in a slash
}

var _ bucket.Bucket = (*Bucket)(nil)

// Open makes a client with its own connections. It does not contact the store;
// credentials are looked for where Application Default Credentials may be, which
// on a machine without any may take some seconds.
func Open(ctx context.Context, o Options) (*Bucket, error) {
	prefix := strings.Trim(o.Prefix, "/")
	if err := check(o, prefix); err != nil {
		return nil, err
	}
	if prefix != "" {
		prefix += "/"
	}
	b := &Bucket{http: exchange.NewClient(), base: service, name: o.Bucket, prefix: prefix}
	if emulator := cmp.Or(o.Emulator, os.Getenv("STORAGE_EMULATOR_HOST")); emulator != "" {
		base, err := emulatorURL(emulator)
		if err != nil {
			return nil, err
		}
		b.base = base
		return b, nil
	}
	tokens, err := findTokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("gs://%s: %w", o.Bucket, err)
	}
	b.tokens = tokens
	return b, nil
}

func check(o Options, prefix string) error {
	if o.Bucket == "" {
		return errors.New("the Cloud Storage bucket has no name; write gs://NAME")
	}
	if strings.ContainsAny(o.Bucket, "/?#%") {
		return fmt.Errorf("gs://%s: a bucket's name has no such characters", o.Bucket)
	}
	if prefix != "" {
		if err := bucket.CheckKey(prefix); err != nil {
			return fmt.Errorf("prefix of gs://%s: %w", o.Bucket, err)
		}
	}
	return nil
}

// emulatorURL completes HOST:PORT, as Google's own clients do.
func emulatorURL(s string) (string, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("the Cloud Storage emulator is said to be at %q, which is neither HOST:PORT nor a URL", s)
	}
	return u.Scheme + "://" + u.Host, nil
}

// Get implements bucket.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (bucket.Object, error) {
	if err := bucket.CheckRead(ctx, b.prefix+key); err != nil {
		return bucket.Object{}, err
	}
	var (
		o   bucket.Object
		err error
	)
	for range 3 { // it may be created, or replaced, at the same moment
		if o, err = b.get(ctx, key); !errors.Is(err, errMeanwhile) {
			break
		}
	}
	if err != nil {
		return bucket.Object{}, b.explain("read", key, err)
	}
	return o, nil
}

// errMeanwhile is an answer that another read may well not get.
var errMeanwhile = errors.New("the object was written at the same moment")

func (b *Bucket) get(ctx context.Context, key string) (bucket.Object, error) {
	a, err := b.ask(ctx, request{method: http.MethodGet, url: b.xmlURL(key), limit: bucket.MaxBody})
	if err == nil {
		err = a.notFoundHere()
	}
	if err == errUnexplained404 {
		err = b.confirmAbsent(ctx, key)
	}
	if err == nil {
		err = a.readError()
	}
	if err != nil {
		return bucket.Object{}, err
	}
	return a.object()
}

// confirmAbsent asks, after a 404 that does not say what is missing (as
// emulators answer), whether the bucket is there and the object is not.
func (b *Bucket) confirmAbsent(ctx context.Context, key string) error {
	l, err := b.list(ctx, url.Values{"prefix": {b.prefix + key}, "maxResults": {"1"}})
	switch {
	case err != nil:
		return fmt.Errorf("404 that does not say what was not found; asked for a list: %w", err)
	case len(l.Items) > 0 && l.Items[0].Name == b.prefix+key:
		return fmt.Errorf("404 for an object that is in the bucket's list: %w", errMeanwhile)
	}
	return fmt.Errorf("404, and it is not in the bucket's list: %w", bucket.ErrNotExist)
}

// Create implements bucket.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if err := bucket.CheckWrite(ctx, b.prefix+key, body); err != nil {
		return bucket.Written{}, err
	}
	return b.insert(ctx, "create", key, body, "0")
}

// Replace implements bucket.Bucket.
func (b *Bucket) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	if err := bucket.CheckReplace(ctx, b.prefix+key, body, v); err != nil {
		return bucket.Written{}, err
	}
	if n, err := strconv.ParseUint(string(v), 10, 63); err != nil || n == 0 {
		return bucket.Written{}, bucket.NotApplied(fmt.Errorf("replace of %q: %q is not a generation", key, v))
	}
	return b.insert(ctx, "replace", key, body, string(v))
}

// insert is one conditional write; generation 0 is "no live object".
func (b *Bucket) insert(ctx context.Context, verb, key string, body []byte, generation string) (bucket.Written, error) {
	query := url.Values{"uploadType": {"multipart"}, "ifGenerationMatch": {generation}, "fields": {"generation"}}
	kind, upload := multipartBody(b.prefix+key, body)
	a, err := b.ask(ctx, request{
		method: http.MethodPost, url: b.base + "/upload/storage/v1/b/" + b.name + "/o?" + query.Encode(),
		kind: kind, body: upload, limit: maxAnswer,
	})
	if err == nil {
		err = a.writeError()
	} else if !a.Sent() {
		err = bucket.NotApplied(err)
	}
	var created struct{ Generation string }
	if err == nil {
		// What cannot be understood is ambiguous.
		if err = json.Unmarshal(a.body, &created); err == nil && created.Generation == "" {
			err = errors.New("the answer has no generation")
		}
	}
	if err != nil {
		return bucket.Written{}, b.explain(verb, key, err)
	}
	return bucket.Written{Version: bucket.Version(created.Generation), Date: a.Date()}, nil
}

// Delete implements bucket.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := bucket.CheckWrite(ctx, b.prefix+key, nil); err != nil {
		return err
	}
	a, err := b.ask(ctx, request{method: http.MethodDelete, url: b.jsonURL(b.prefix + key), limit: maxAnswer})
	switch {
	case err != nil && !a.Sent():
		err = bucket.NotApplied(err)
	case err == nil && a.Status == http.StatusNotFound && a.problem().reason == "notFound":
		return nil // absent is what was asked for
	case err == nil:
		err = a.writeError()
	}
	if err != nil {
		return b.explain("delete", key, err)
	}
	return nil
}

// List implements bucket.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	if err := ctx.Err(); err != nil {
		return bucket.Listing{}, err
	}
	limit = bucket.PageLimit(limit)
	query := url.Values{"prefix": {b.prefix + prefix}, "maxResults": {strconv.Itoa(limit)}}
	if after != "" {
		// It includes the object named, which then takes one place on the page.
		query.Set("startOffset", b.prefix+after)
	}
	var l bucket.Listing
	for {
		page, err := b.list(ctx, query)
		if err == nil {
			l.Keys, err = b.keys(page, prefix, after)
		}
		if err != nil {
			return bucket.Listing{}, b.explain("list", prefix, err)
		}
		if page.NextPageToken == "" && len(l.Keys) <= limit {
			return l, nil
		}
		if len(l.Keys) > 0 {
			l.Keys = l.Keys[:min(limit, len(l.Keys))]
			l.Next = l.Keys[len(l.Keys)-1]
			return l, nil
		}
		query.Set("pageToken", page.NextPageToken) // an empty page with more to follow
	}
}

// listing is what the service answers to a list.
type listing struct {
	Kind          string
	NextPageToken string
	Items         []struct{ Name string }
}

func (b *Bucket) list(ctx context.Context, query url.Values) (listing, error) {
	query.Set("fields", "kind,nextPageToken,items(name)")
	a, err := b.ask(ctx, request{method: http.MethodGet, url: b.jsonURL("") + "?" + query.Encode(), limit: maxAnswer})
	if err == nil {
		err = a.readError()
	}
	var l listing
	if err == nil {
		err = json.Unmarshal(a.body, &l)
	}
	if err == nil && l.Kind != "storage#objects" {
		err = errors.New("the answer is not a listing")
	}
	return l, err
}

// keys checks a listing: a page that is wrong would make nodes look absent.
func (b *Bucket) keys(l listing, prefix, after string) ([]string, error) {
	var keys []string
	last := after
	for _, item := range l.Items {
		key, ours := strings.CutPrefix(item.Name, b.prefix)
		if !ours || !strings.HasPrefix(key, prefix) {
			return nil, fmt.Errorf("key %q does not have the prefix asked for", item.Name)
		}
		if key == after {
			continue
		}
		if key <= last {
			return nil, fmt.Errorf("key %q came after %q: not in byte order", key, last)
		}
		keys, last = append(keys, key), key
	}
	return keys, nil
}

// Traits implements bucket.Bucket. HTTP dates are in seconds.
func (b *Bucket) Traits() bucket.Traits {
	return bucket.Traits{Rounding: time.Second, MinTTL: minTTL}
}

// Fresh implements bucket.Bucket.
func (b *Bucket) Fresh() { b.http.CloseIdle() }

// Close implements bucket.Bucket.
func (b *Bucket) Close() error {
	b.http.CloseIdle()
	return nil
}

func (b *Bucket) explain(verb, key string, err error) error {
	return fmt.Errorf("%s gs://%s/%s: %w", verb, b.name, b.prefix+key, err)
}

func (b *Bucket) xmlURL(key string) string {
	u := url.URL{Path: "/" + b.name + "/" + b.prefix + key}
	return b.base + u.EscapedPath()
}

// jsonURL is that of an object, or with an empty name that of all.
func (b *Bucket) jsonURL(name string) string {
	u := b.base + "/storage/v1/b/" + b.name + "/o"
	if name != "" {
		u += "/" + url.PathEscape(name)
	}
	return u
}
