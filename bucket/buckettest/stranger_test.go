package buckettest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/mem"
)

// This file is what somebody with a store of his own would write: the store, an
// adapter for it, and its test.

func TestStrangersStore(t *testing.T) {
	server := httptest.NewServer(shelf{mem.New()})
	defer server.Close()
	buckettest.Run(t, func(*testing.T) bucket.Bucket { return newClerk(server.URL) })
	buckettest.RunWire(t, buckettest.Wire{
		Target:  server.URL,
		Open:    func(_ *testing.T, url string) bucket.Bucket { return newClerk(url) },
		Answers: shelfAnswers,
	})
}

var shelfAnswers = []buckettest.Answer{
	{Name: "absent", Status: 404, Headers: []string{"Shelf-Error", "absent"}, Get: bucket.ErrNotExist, Replace: bucket.ErrConflict},
	{Name: "busy", Status: 429, Headers: []string{"Shelf-Error", "busy"}, Get: bucket.ErrThrottled, Create: bucket.ErrThrottled},
}

// shelf is the store: HTTP with the version of an object in its ETag.
type shelf struct{ objects *mem.Bucket }

func (s shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/o/")
	var err error
	switch {
	case r.URL.Path == "/list":
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		var l bucket.Listing
		if l, err = s.objects.List(r.Context(), r.FormValue("prefix"), r.FormValue("after"), limit); err == nil {
			err = json.NewEncoder(w).Encode(l)
		}
	case r.Method == http.MethodGet:
		var o bucket.Object
		if o, err = s.objects.Get(r.Context(), key); err == nil {
			w.Header().Set("ETag", string(o.Version))
			w.Header().Set("Date", o.Date.UTC().Format(http.TimeFormat))
			w.Header().Set("Last-Modified", o.Modified.UTC().Format(http.TimeFormat))
			_, err = w.Write(o.Body)
		}
	case r.Method == http.MethodDelete:
		err = s.objects.Delete(r.Context(), key)
	default:
		err = s.put(w, r, key)
	}
	switch {
	case errors.Is(err, bucket.ErrNotExist):
		w.Header().Set("Shelf-Error", "absent")
		w.WriteHeader(http.StatusNotFound)
	case errors.Is(err, bucket.ErrConflict):
		w.WriteHeader(http.StatusPreconditionFailed)
	case err != nil:
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (s shelf) put(w http.ResponseWriter, r *http.Request, key string) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var written bucket.Written
	if v := r.Header.Get("If-Match"); v != "" {
		written, err = s.objects.Replace(context.Background(), key, body, bucket.Version(v))
	} else {
		written, err = s.objects.Create(context.Background(), key, body)
	}
	w.Header().Set("ETag", string(written.Version))
	return err
}

// clerk is the adapter. The mistakes are those that an adapter may make.
type clerk struct {
	url      string
	client   *http.Client
	mistaken string
}

func newClerk(url string) *clerk {
	return &clerk{url: url, client: &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// mistakes, and what must find each of them.
var mistakes = map[string]string{
	"resends after a 503":            "TestStrangersMistake/Write/503_though_it_was_applied",
	"resends after a reset":          "TestStrangersMistake/Write/reset_after_it_was_applied",
	"follows redirects":              "TestStrangersMistake/Write/307",
	"takes any 404 for absent":       "TestStrangersMistake/Read/404_page",
	"takes 500 for not applied":      "TestStrangersMistake/Write/500_page",
	"takes a reset for not applied":  "TestStrangersMistake/Write/reset_after_it_was_applied",
	"needs no version":               "TestStrangersMistake/Write/no_version",
	"reads out of caches":            "TestStrangersMistake/Read/out_of_a_cache",
	"takes any page for a list":      "TestStrangersMistake/Read/nothing_at_all",
	"takes a throttle for ambiguous": "TestStrangersMistake/Answer/busy",
	"waits for ever":                 "TestStrangersMistake/Write/never_answered",
}

const mistakeVariable = "TENURE_BUCKETTEST_MISTAKE"

func TestWireCatchesMistakes(t *testing.T) {
	for mistake, by := range mistakes {
		t.Run(mistake, func(t *testing.T) {
			t.Parallel()
			top, rest, _ := strings.Cut(by, "/")
			c := exec.Command(os.Args[0], "-test.run=^"+top+"$/^"+strings.ReplaceAll(rest, "/", "$/^")+"$")
			c.Env = append(os.Environ(), mistakeVariable+"="+mistake)
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+by) {
				t.Errorf("%s did not find it: %v\n%s", by, err, out)
			}
		})
	}
}

// TestStrangersMistake is what the child process runs.
func TestStrangersMistake(t *testing.T) {
	mistake := os.Getenv(mistakeVariable)
	if mistake == "" {
		t.Skip("only in a child process")
	}
	server := httptest.NewServer(shelf{mem.New()})
	t.Cleanup(server.Close)
	buckettest.RunWire(t, buckettest.Wire{Target: server.URL, Answers: shelfAnswers, Open: func(_ *testing.T, url string) bucket.Bucket {
		b := newClerk(url)
		if b.mistaken = mistake; mistake == "follows redirects" {
			b.client.CheckRedirect = nil
		}
		return b
	}})
}

// send is one request; sent says that it may have left.
func (b *clerk) send(ctx context.Context, method, target, match, body string) (resp *http.Response, answer []byte, sent bool, err error) {
	if b.mistaken == "waits for ever" {
		ctx = context.WithoutCancel(ctx)
	}
	for range 2 {
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }})
		r, _ := http.NewRequestWithContext(traced, method, b.url+target, strings.NewReader(body))
		if match != "" {
			r.Header.Set("If-Match", match)
		}
		if resp, err = b.client.Do(r); err != nil {
			if b.mistaken == "resends after a reset" {
				continue
			}
			return nil, nil, sent, err
		}
		answer, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if b.mistaken != "resends after a 503" || resp.StatusCode != 503 {
			break
		}
	}
	if err == nil && resp.Header.Get("Age") != "" && b.mistaken != "reads out of caches" {
		err = errors.New("out of a cache")
	}
	return resp, answer, sent, err
}

// judge says what a failed answer means.
func (b *clerk) judge(resp *http.Response, method string) error {
	code := resp.Header.Get("Shelf-Error")
	err := fmt.Errorf("%s %s", resp.Status, code)
	switch status := resp.StatusCode; {
	case status == 200:
		return nil
	case status == 412:
		return fmt.Errorf("%w: %w", bucket.ErrConflict, err)
	case status == 404 && (code == "absent" || b.mistaken == "takes any 404 for absent"):
		if method != http.MethodGet {
			return fmt.Errorf("%w: %w", bucket.ErrConflict, err)
		}
		return fmt.Errorf("%w: %w", bucket.ErrNotExist, err)
	case status == 429 && code == "busy" && b.mistaken != "takes a throttle for ambiguous":
		return fmt.Errorf("%w: %w", bucket.ErrThrottled, err)
	case status == 400 || status == 401 || status == 403:
		return fmt.Errorf("%w: %w", bucket.ErrRefused, err)
	case status == 500 && b.mistaken == "takes 500 for not applied":
		return bucket.NotApplied(err)
	}
	return err
}

func (b *clerk) Get(ctx context.Context, key string) (bucket.Object, error) {
	if err := bucket.CheckRead(ctx, key); err != nil {
		return bucket.Object{}, err
	}
	resp, body, _, err := b.send(ctx, http.MethodGet, "/o/"+url.PathEscape(key), "", "")
	if err == nil {
		err = b.judge(resp, http.MethodGet)
	}
	if err == nil && resp.Header.Get("ETag") == "" {
		err = errors.New("no version")
	}
	if err == nil {
		err = bucket.CheckBody(key, int64(len(body)))
	}
	if err != nil {
		return bucket.Object{}, err
	}
	o := bucket.Object{Body: body, Version: bucket.Version(resp.Header.Get("ETag"))}
	o.Date, _ = http.ParseTime(resp.Header.Get("Date"))
	o.Modified, _ = http.ParseTime(resp.Header.Get("Last-Modified"))
	return o, nil
}

func (b *clerk) write(ctx context.Context, method, key, match string, body []byte) (bucket.Written, error) {
	resp, _, sent, err := b.send(ctx, method, "/o/"+url.PathEscape(key), match, string(body))
	switch {
	case err != nil && (!sent || b.mistaken == "takes a reset for not applied"):
		err = bucket.NotApplied(err)
	case err == nil:
		err = b.judge(resp, method)
	}
	if err == nil && method == http.MethodPut && resp.Header.Get("ETag") == "" && b.mistaken != "needs no version" {
		err = errors.New("no version")
	}
	if err != nil {
		return bucket.Written{}, err
	}
	return bucket.Written{Version: bucket.Version(resp.Header.Get("ETag"))}, nil
}

func (b *clerk) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if err := bucket.CheckWrite(ctx, key, body); err != nil {
		return bucket.Written{}, err
	}
	return b.write(ctx, http.MethodPut, key, "", body)
}

func (b *clerk) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	if err := bucket.CheckReplace(ctx, key, body, v); err != nil {
		return bucket.Written{}, err
	}
	return b.write(ctx, http.MethodPut, key, string(v), body)
}

func (b *clerk) Delete(ctx context.Context, key string) error {
	if err := bucket.CheckWrite(ctx, key, nil); err != nil {
		return err
	}
	_, err := b.write(ctx, http.MethodDelete, key, "", nil)
	return err
}

func (b *clerk) List(ctx context.Context, prefix, after string, limit int) (l bucket.Listing, err error) {
	if err := ctx.Err(); err != nil {
		return l, err
	}
	query := url.Values{"prefix": {prefix}, "after": {after}, "limit": {strconv.Itoa(limit)}}
	resp, body, _, err := b.send(ctx, http.MethodGet, "/list?"+query.Encode(), "", "")
	if err == nil {
		err = b.judge(resp, "")
	}
	if err == nil {
		if err = json.Unmarshal(body, &l); b.mistaken == "takes any page for a list" {
			err = nil
		}
	}
	return l, err
}

func (b *clerk) Traits() bucket.Traits { return bucket.Traits{Rounding: time.Second} }
func (b *clerk) Fresh()                { b.client.CloseIdleConnections() }
func (b *clerk) Close() error          { b.client.CloseIdleConnections(); return nil }
