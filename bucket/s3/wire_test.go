package s3_test

import (
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket"
)

// scripted is a server whose answers a test chooses, and which counts what
// arrives.
type scripted struct {
	*httptest.Server
	requests atomic.Int64
}

func script(t *testing.T, answer http.HandlerFunc) *scripted {
	s := &scripted{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPut && r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("a write without no-store: %v", r.Header)
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// says answers with an S3 error, or, with code "html", with a proxy's page.
func says(status int, code string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		switch code {
		case "":
		case "html":
			io.WriteString(w, "<html><body><p>sorry<br></body></html>")
		default:
			fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>as scripted</Message></Error>", code)
		}
	}
}

// errAmbiguous stands for an error of none of the definite kinds.
var errAmbiguous = errors.New("ambiguous")

func isKind(err, kind error) bool {
	if kind == errAmbiguous {
		return err != nil && !errors.Is(err, bucket.ErrConflict) && !errors.Is(err, bucket.ErrNotApplied) && !errors.Is(err, bucket.ErrNotExist)
	}
	return errors.Is(err, kind)
}

func TestConditionsOnTheWire(t *testing.T) {
	var seen http.Header
	date := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	s := script(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		w.Header().Set("Date", date.Format(http.TimeFormat))
		w.Header().Set("ETag", `W/"opaque`)
	})
	b := open(t, options(s.URL))
	w, err := b.Create(t.Context(), "k", []byte("x"))
	if err != nil || seen.Get("If-None-Match") != "*" || seen.Get("If-Match") != "" {
		t.Errorf("create sent %v, %v", seen, err)
	}
	if !w.Date.Equal(date) || w.Version != `W/"opaque` {
		t.Errorf("written %+v", w)
	}
	if _, err := b.Replace(t.Context(), "k", []byte("x"), w.Version); err != nil || seen.Get("If-Match") != `W/"opaque` || seen.Get("If-None-Match") != "" {
		t.Errorf("replace sent %v, %v", seen, err)
	}
}

func TestNotSentIsNotApplied(t *testing.T) {
	s := script(t, says(500, ""))
	s.Close()
	_, err := open(t, options(s.URL)).Create(t.Context(), "k", []byte("x"))
	if !errors.Is(err, bucket.ErrNotApplied) {
		t.Errorf("nobody listens: %v", err)
	}
}

// On a clock an hour off, the first answer sets the client right.
func TestClockSkew(t *testing.T) {
	storeNow := time.Now().Add(time.Hour)
	s := script(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", storeNow.UTC().Format(http.TimeFormat))
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil || storeNow.Sub(signed).Abs() > 15*time.Minute {
			says(403, "RequestTimeTooSkewed")(w, r)
			return
		}
		w.Header().Set("ETag", `"v"`)
	})
	b := open(t, options(s.URL))
	for i, want := range []int64{2, 3} {
		if _, err := b.Create(t.Context(), fmt.Sprint(i), nil); err != nil || s.requests.Load() != want {
			t.Errorf("create %d: %v after %d requests, want %d", i, err, s.requests.Load(), want)
		}
	}
	for name, read := range map[string]func(bucket.Bucket) error{
		"get":  func(b bucket.Bucket) error { _, err := b.Get(t.Context(), "k"); return err },
		"list": func(b bucket.Bucket) error { _, err := b.List(t.Context(), "", "", 0); return err },
	} {
		b := open(t, options(s.URL))
		s.requests.Store(0)
		if err := read(b); errors.Is(err, bucket.ErrRefused) || s.requests.Load() != 2 {
			t.Errorf("%s: %v after %d requests, want 2", name, err, s.requests.Load())
		}
	}
}

func TestReadAnswers(t *testing.T) {
	ok := func(headers ...string) http.HandlerFunc { return says(200, "html", headers...) }
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   error
		sent   int64
	}{
		{"absent", says(404, "NoSuchKey"), bucket.ErrNotExist, 1},
		{"absent, out of a cache", says(404, "NoSuchKey", "Age", "1"), errAmbiguous, 1},
		{"no bucket", says(404, "NoSuchBucket"), bucket.ErrRefused, 1},
		{"404 page", says(404, "html"), errAmbiguous, 1},
		{"404 without a body", says(404, ""), errAmbiguous, 1},
		{"403", says(403, "AccessDenied"), bucket.ErrRefused, 1},
		{"wrong region", says(301, "PermanentRedirect", "Location", "/x"), bucket.ErrRefused, 1},
		{"redirect", says(307, "", "Location", "/x"), errAmbiguous, 1},
		{"503 SlowDown", says(503, "SlowDown"), bucket.ErrThrottled, 1},
		{"500", says(500, "InternalError"), errAmbiguous, 1},
		{"out of a cache", ok("ETag", `"v"`, "Age", "3"), errAmbiguous, 1},
		{"without ETag", ok(), errAmbiguous, 1},
		{"cut short", ok("ETag", `"v"`, "Content-Length", "1000"), errAmbiguous, 1},
		{"too large", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"v"`)
			io.WriteString(w, strings.Repeat("x", bucket.MaxBody+1))
		}, errAmbiguous, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := script(t, c.answer)
			o, err := open(t, options(s.URL)).Get(t.Context(), "k")
			if !isKind(err, c.want) || s.requests.Load() != c.sent || o.Version != "" {
				t.Errorf("got %+v, error %v after %d requests; want %v after %d", o, err, s.requests.Load(), c.want, c.sent)
			}
		})
	}
}

func TestRetryAfterOnTheWire(t *testing.T) {
	for _, c := range []struct {
		headers []string
		want    time.Duration
	}{
		{[]string{"Retry-After", "7"}, 7 * time.Second},
		{[]string{"Retry-After", "Sun, 29 Nov 2026 10:00:09 GMT", "Date", "Sun, 29 Nov 2026 10:00:00 GMT"}, 9 * time.Second},
		{[]string{"Retry-After", "Sun, 29 Nov 2026 09:00:00 GMT", "Date", "Sun, 29 Nov 2026 10:00:00 GMT"}, 0},
		{[]string{"Retry-After", "soon"}, 0},
		{[]string{"Retry-After", "-7"}, 0},
		{nil, 0},
	} {
		for _, code := range []string{"SlowDown", "ServiceUnavailable"} {
			b := open(t, options(script(t, says(503, code, c.headers...)).URL))
			_, read := b.Get(t.Context(), "k")
			_, written := b.Create(t.Context(), "k", nil)
			if bucket.RetryAfter(read) != c.want || bucket.RetryAfter(written) != c.want || errors.Is(written, bucket.ErrThrottled) != (code == "SlowDown") {
				t.Errorf("%s %q: read %v, %v; written %v, %v; want %v", code, c.headers,
					bucket.RetryAfter(read), read, bucket.RetryAfter(written), written, c.want)
			}
		}
	}
}

func TestTimesOnTheWire(t *testing.T) {
	date := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	s := script(t, says(200, "html", "ETag", `"v"`,
		"Date", date.Format(http.TimeFormat), "Last-Modified", date.Add(-time.Minute).Format(http.TimeFormat)))
	o, err := open(t, options(s.URL)).Get(t.Context(), "k")
	if err != nil || !o.Date.Equal(date) || !o.Modified.Equal(date.Add(-time.Minute)) {
		t.Errorf("read %+v, %v", o, err)
	}
}

// A body that is not its ETag's is an error only where the store was seen to
// derive the one from the other.
func TestTornReads(t *testing.T) {
	md5Of := func(s string) string { return fmt.Sprintf(`"%x"`, md5.Sum([]byte(s))) }
	for _, c := range []struct {
		name             string
		put, get, header string
		torn             bool
	}{
		{"derived", md5Of("mine"), md5Of("other"), "", true},
		{"matching", md5Of("mine"), md5Of("served"), "", false},
		{"not derived", md5Of("salt"), md5Of("other"), "", false},
		{"other shape", md5Of("mine"), md5Of("other")[:20] + `-2"`, "", false},
		{"KMS", md5Of("mine"), md5Of("other"), "aws:kms", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					w.Header().Set("ETag", c.put)
					return
				}
				w.Header().Set("ETag", c.get)
				w.Header().Set("X-Amz-Server-Side-Encryption", c.header)
				io.WriteString(w, "served")
			})
			b := open(t, options(s.URL))
			if _, err := b.Create(t.Context(), "k", []byte("mine")); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Get(t.Context(), "k"); (err != nil) != c.torn {
				t.Errorf("get: %v, want an error: %v", err, c.torn)
			}
		})
	}
}

func TestListAnswers(t *testing.T) {
	page := func(keys ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `<ListBucketResult><Name>fleet</Name><IsTruncated>false</IsTruncated>`)
			for _, k := range keys {
				fmt.Fprintf(w, `<Contents><Key>%s</Key></Contents>`, k)
			}
			io.WriteString(w, `</ListBucketResult>`)
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"not a listing": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<a>welcome</a>") },
		"empty answer":  func(http.ResponseWriter, *http.Request) {},
		"out of order":  page("a/2", "a/1"),
		"other prefix":  page("b/1"),
		"before after":  page("a/0"),
	} {
		if l, err := open(t, options(script(t, answer).URL)).List(t.Context(), "a/", "a/0", 0); err == nil {
			t.Errorf("%s: listed %+v without an error", name, l)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, change := range map[string]func() error{
		"no name":  func() error { return openError(t, "", "http://localhost:1", "") },
		"endpoint": func() error { return openError(t, "fleet", "localhost:9000", "") },
		"prefix":   func() error { return openError(t, "fleet", "http://localhost:1", "a//b") },
	} {
		if err := change(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not mention %q", err, want)
		}
	}
}
