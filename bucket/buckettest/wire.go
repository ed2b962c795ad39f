package buckettest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest/proxy"
)

// Wire says how to test what an adapter makes of a network that misbehaves.
type Wire struct {
	// Target is the URL of a real store, which the suite puts a proxy before.
	Target string
	// Open makes a new client that takes the proxy's URL for the store's.
	Open func(t *testing.T, url string) bucket.Bucket
	// Proxy changes how the proxy passes requests on.
	Proxy []proxy.Option
	// Answers are the store's own words for its failures, and what they mean.
	Answers []Answer
}

// Answer is one answer of a store, and the kind of failure that each operation
// must make of it; nil: it is not tried.
type Answer struct {
	Name                               string
	Status                             int
	Body                               string
	Headers                            []string // names and values in turn
	Get, List, Create, Replace, Delete error
}

// ErrAmbiguous stands for a failure of no definite kind.
var ErrAmbiguous = errors.New("ambiguous")

// RunWire tests an adapter of a store over HTTP through a real proxy that makes
// up answers and breaks connections: what each operation makes of it, and that a
// write is on the wire exactly once, whatever happens.
func RunWire(t *testing.T, w Wire) {
	// Each group ends before RunWire goes on.
	t.Run("Write", func(t *testing.T) {
		for _, f := range writeFaults {
			t.Run(f.name, func(t *testing.T) { t.Parallel(); w.testWrite(t, f) })
		}
	})
	t.Run("Read", func(t *testing.T) {
		for _, f := range readFaults {
			t.Run(f.name, func(t *testing.T) { t.Parallel(); w.testRead(t, f) })
		}
	})
	t.Run("Answer", func(t *testing.T) {
		for _, a := range w.Answers {
			t.Run(a.Name, func(t *testing.T) { t.Parallel(); w.testAnswer(t, a) })
		}
	})
	t.Run("IdleConnectionClosed", w.testIdleClosed)
}

// page is what a proxy or a load balancer says.
const page = "<html><head><title>sorry</title></head><body><p>sorry<br></body></html>"

type fault struct {
	name    string
	do      proxy.Fault
	want    error // of a create and a replace
	applied bool  // it reaches the store all the same
	hangs   bool  // it ends by its context
	inHead  bool  // a good answer's head is passed on, and may have all that counts
}

var writeFaults = []fault{
	{name: "reset before", do: proxy.ResetBefore(), want: ErrAmbiguous},
	{name: "closed before", do: proxy.CloseBefore(), want: ErrAmbiguous},
	{name: "reset during the body", do: proxy.ResetDuring(), want: ErrAmbiguous},
	{name: "reset after it was applied", do: proxy.ResetAfter(), want: ErrAmbiguous, applied: true},
	{name: "applied after the reset", do: proxy.ApplyLate(100 * time.Millisecond), want: ErrAmbiguous, applied: true},
	{name: "answer cut short", do: proxy.Cut(), applied: true, inHead: true},
	{name: "never answered", do: proxy.Hang(), want: ErrAmbiguous, hangs: true},
	{name: "400 page", do: proxy.Answer(400, page), want: bucket.ErrNotApplied},
	{name: "401 page", do: proxy.Answer(401, page), want: bucket.ErrNotApplied},
	{name: "403 page", do: proxy.Answer(403, page), want: bucket.ErrNotApplied},
	{name: "404 page", do: proxy.Answer(404, page), want: ErrAmbiguous},
	{name: "404 without a body", do: proxy.Answer(404, ""), want: ErrAmbiguous},
	{name: "408 page", do: proxy.Answer(408, page), want: ErrAmbiguous},
	{name: "409 page", do: proxy.Answer(409, page), want: ErrAmbiguous},
	{name: "412", do: proxy.Answer(412, ""), want: bucket.ErrConflict},
	{name: "412 out of a cache", do: proxy.Answer(412, "", "Age", "7"), want: ErrAmbiguous},
	{name: "429 page", do: proxy.Answer(429, page), want: ErrAmbiguous},
	{name: "500 page", do: proxy.Answer(500, page), want: ErrAmbiguous},
	{name: "500 though it was applied", do: applyAndAnswer(500), want: ErrAmbiguous, applied: true},
	{name: "503 though it was applied", do: applyAndAnswer(503), want: ErrAmbiguous, applied: true},
	{name: "502 page", do: proxy.Answer(502, page), want: ErrAmbiguous},
	{name: "503 page", do: proxy.Answer(503, page), want: ErrAmbiguous},
	{name: "503 come again", do: proxy.Answer(503, "", "Retry-After", "0"), want: ErrAmbiguous},
	{name: "504 page", do: proxy.Answer(504, page), want: ErrAmbiguous},
	{name: "301", do: proxy.Answer(301, "", "Location", "/elsewhere"), want: ErrAmbiguous},
	{name: "307", do: proxy.Answer(307, "", "Location", "/elsewhere"), want: ErrAmbiguous},
	{name: "308", do: proxy.Answer(308, "", "Location", "/elsewhere"), want: ErrAmbiguous},
	{name: "no version", do: proxy.Edit(bare), want: ErrAmbiguous, applied: true},
	{name: "out of a cache", do: proxy.Edit(aged), want: ErrAmbiguous, applied: true},
}

// applyAndAnswer says that it failed, though it did not.
func applyAndAnswer(status int) proxy.Fault {
	answer := proxy.Answer(status, page)
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		answer(w, r, nil)
	}
}

// bare leaves of an answer nothing that may be a version.
func bare(header http.Header, _ []byte) []byte {
	for name := range header {
		if name != "Date" && name != "Content-Type" {
			header.Del(name)
		}
	}
	return nil
}

func aged(header http.Header, body []byte) []byte {
	header.Set("Age", "0")
	return body
}

// huge is no record, whatever it is.
func huge(http.Header, []byte) []byte { return make([]byte, bucket.MaxBody+1) }

// through opens the store behind a new proxy, with a part of the key space that
// no other test uses, and with a connection that was used before.
func (w Wire) through(t *testing.T) (*proxy.Proxy, *run) {
	t.Helper()
	p := proxy.Start(t, w.Target, w.Proxy...)
	open := func(t *testing.T) bucket.Bucket { return w.Open(t, p.URL) }
	s := suite{open: open}
	r := s.start(t)
	t.Cleanup(func() { p.Set() }) // before the store is cleaned up
	r.create("old", "old")
	p.Reset()
	return p, r
}

func (w Wire) testWrite(t *testing.T, f fault) {
	p, r := w.through(t)
	old := r.get(r.b, "old")
	body := rand.Text() + strings.Repeat(".", 40<<10)
	for _, op := range []struct {
		name, key string
		do        func(ctx context.Context) error
	}{
		{"create", "new", func(ctx context.Context) error {
			_, err := r.b.Create(ctx, r.prefix+"new", []byte(body))
			return err
		}},
		{"replace", "old", func(ctx context.Context) error {
			_, err := r.b.Replace(ctx, r.prefix+"old", []byte(body), old.Version)
			return err
		}},
	} {
		err := w.once(t, p, r, op.name, f, op.do)
		switch {
		case !f.inHead:
			wantKind(t, op.name, err, f.want)
		case err != nil:
			wantKind(t, op.name, err, ErrAmbiguous)
		}
		r.settles(op.name, op.key, body, f.applied)
	}
	err := w.once(t, p, r, "delete", f, func(ctx context.Context) error { return r.b.Delete(ctx, r.prefix+"old") })
	if err == nil && !f.applied && f.want != bucket.ErrConflict {
		t.Error("delete: no error, though it did not reach the store")
	}
}

// once performs a write under the fault and counts it on the wire.
func (w Wire) once(t *testing.T, p *proxy.Proxy, r *run, name string, f fault, op func(context.Context) error) error {
	t.Helper()
	p.Set(proxy.Rule{When: proxy.Writes, Do: f.do})
	p.Reset()
	err := r.bounded(f.hangs, op)
	p.Set()
	if n := p.Count(proxy.Writes); n != 1 {
		t.Errorf("%s: %d writes on the wire, want exactly 1; error %v", name, n, err)
	}
	return err
}

// bounded gives an operation its time, and wants it to end by then.
func (r *run) bounded(hangs bool, op func(context.Context) error) error {
	patience := 30 * time.Second
	if hangs {
		patience = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- op(ctx) }()
	const grace = 5 * time.Second
	select {
	case err := <-done:
		return err
	case <-time.After(patience + grace):
		r.Fatalf("it goes on %v after its context has ended", grace)
		return nil
	}
}

// settles requires that the write was applied, perhaps late, or was not.
func (r *run) settles(what, key, body string, applied bool) {
	r.Helper()
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		o, err := r.b.Get(r.ctx, r.prefix+key)
		if err != nil && !errors.Is(err, bucket.ErrNotExist) {
			r.Fatalf("%s: read: %v", what, err)
		}
		switch is := string(o.Body) == body; {
		case is == applied:
			return
		case is:
			r.Fatalf("%s: it was applied", what)
		case r.ctx.Err() != nil:
			r.Fatalf("%s: it was never applied", what)
		}
	}
}

var readFaults = []fault{
	{name: "reset before", do: proxy.ResetBefore()},
	{name: "reset after", do: proxy.ResetAfter()},
	{name: "cut short", do: proxy.Cut(), inHead: true},
	{name: "never answered", do: proxy.Hang(), hangs: true},
	{name: "400 page", do: proxy.Answer(400, page)},
	{name: "401 page", do: proxy.Answer(401, page)},
	{name: "403 page", do: proxy.Answer(403, page)},
	{name: "404 page", do: proxy.Answer(404, page)},
	{name: "404 without a body", do: proxy.Answer(404, "")},
	{name: "429 page", do: proxy.Answer(429, page)},
	{name: "500 page", do: proxy.Answer(500, page)},
	{name: "503 page", do: proxy.Answer(503, page)},
	{name: "307", do: proxy.Answer(307, "", "Location", "/elsewhere")},
	{name: "welcome page", do: proxy.Answer(200, page)},
	{name: "nothing at all", do: proxy.Answer(200, "")},
	{name: "out of a cache", do: proxy.Edit(aged)},
	{name: "no version", do: proxy.Edit(bare), inHead: true},
	{name: "too large", do: proxy.Edit(huge), inHead: true},
}

// testRead: whatever happens, an object and a list are there or an error is; an
// object is never taken for absent.
func (w Wire) testRead(t *testing.T, f fault) {
	p, r := w.through(t)
	p.Set(proxy.Rule{When: proxy.Any, Do: f.do})
	for _, key := range []string{"old", "absent"} {
		if key == "absent" && f.inHead {
			continue
		}
		err := r.bounded(f.hangs, func(ctx context.Context) error {
			o, err := r.b.Get(ctx, r.prefix+key)
			if err != nil && (o.Version != "" || o.Body != nil) {
				t.Errorf("get of %s: an object beside error %v", key, err)
			}
			return err
		})
		if err == nil || errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("get of %s: %v, want an error that says nothing about the object", key, err)
		}
	}
	err := r.bounded(f.hangs, func(ctx context.Context) error {
		_, err := r.b.List(ctx, r.prefix, "", 0)
		return err
	})
	if err == nil && f.name != "no version" || errors.Is(err, bucket.ErrNotExist) {
		t.Errorf("list: %v, want an error that says nothing about objects", err)
	}
	p.Set()
	r.holds("old", "old", r.get(r.b, "old").Version) // it works again
}

func (w Wire) testAnswer(t *testing.T, a Answer) {
	p, r := w.through(t)
	v := r.get(r.b, "old").Version
	for _, op := range []struct {
		name string
		want error
		do   func() error
	}{
		{"get", a.Get, func() error { _, err := r.b.Get(r.ctx, r.prefix+"old"); return err }},
		{"list", a.List, func() error { _, err := r.b.List(r.ctx, r.prefix, "", 0); return err }},
		{"create", a.Create, func() error { _, err := r.b.Create(r.ctx, r.prefix+"new", []byte("x")); return err }},
		{"replace", a.Replace, func() error { _, err := r.b.Replace(r.ctx, r.prefix+"old", []byte("x"), v); return err }},
		{"delete", a.Delete, func() error { return r.b.Delete(r.ctx, r.prefix+"old") }},
	} {
		if op.want == nil {
			continue
		}
		p.Set(proxy.Rule{When: proxy.Any, Do: proxy.Answer(a.Status, a.Body, a.Headers...)})
		p.Reset()
		wantKind(t, op.name, op.do(), op.want)
		if n := p.Count(proxy.Writes); n > 1 || n == 0 && op.name != "get" && op.name != "list" {
			t.Errorf("%s: %d writes on the wire, want exactly 1", op.name, n)
		}
		p.Set()
	}
}

// wantKind wants a failure of exactly that kind.
func wantKind(t *testing.T, what string, err, want error) {
	t.Helper()
	rejected, definite := errors.Is(err, bucket.ErrConflict), errors.Is(err, bucket.ErrNotApplied)
	ok := errors.Is(err, want) && !(rejected && definite)
	if want == ErrAmbiguous {
		ok = err != nil && !rejected && !definite && !errors.Is(err, bucket.ErrNotExist)
	}
	if !ok {
		t.Errorf("%s: error %v; want one that is %q", what, err, want)
	}
}

// testIdleClosed closes connections while they are idle, as servers do: the next
// write uses another one, or fails, and is not seen twice.
func (w Wire) testIdleClosed(t *testing.T) {
	p, r := w.through(t)
	for i := range 20 {
		p.CloseConnections()
		p.Reset()
		key := fmt.Sprint("idle-", i)
		_, err := r.b.Create(r.ctx, r.prefix+key, []byte(key))
		if n := p.Count(proxy.Writes); n > 1 || n == 0 && err == nil {
			t.Errorf("%d writes on the wire, error %v", n, err)
		}
		if errors.Is(err, bucket.ErrConflict) {
			t.Errorf("create of an absent object: %v", err)
		}
		if err == nil {
			r.holds(key, key, r.get(r.b, key).Version)
		}
	}
}
