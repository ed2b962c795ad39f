// Package buckettest proves that an implementation of bucket.Bucket does what
// the ownership protocol needs. Anybody may run it for an adapter of his own:
//
//	func TestConformance(t *testing.T) {
//		buckettest.Run(t, func(t *testing.T) bucket.Bucket {
//			return open(t) // another handle on the same store, at each call
//		})
//	}
//
// and, where it speaks HTTP, what it makes of a network that misbehaves:
//
//	func TestWire(t *testing.T) {
//		buckettest.RunWire(t, buckettest.Wire{
//			Target: "http://127.0.0.1:9000",
//			Open:   func(t *testing.T, url string) bucket.Bucket { return openAt(t, url) },
//		})
//	}
//
// It also holds two wrappers around any bucket: [Inject] makes its operations
// fail in chosen ways, [Count] counts them.
package buckettest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket"
)

// An Option changes how much Run does.
type Option func(*suite)

// Keys sets the number of objects in the paging test; the default is 2,500,
// more than two pages of any store.
func Keys(n int) Option { return func(s *suite) { s.keys = n } }

// Racers sets how many goroutines compete in the race tests; the default is 64.
func Racers(n int) Option { return func(s *suite) { s.racers = n } }

// Run tests the store behind open, which returns another handle on the same
// store at each call, or skips. Run closes the handles. It writes below
// "buckettest/" only, under names that no other run uses, and deletes what it
// wrote. Several runs may share a store.
func Run(t *testing.T, open func(t *testing.T) bucket.Bucket, options ...Option) {
	s := suite{open: open, keys: 2500, racers: 64}
	for _, o := range options {
		o(&s)
	}
	for _, c := range []struct {
		name string
		test func(*run)
	}{
		{"AbsentReadsAbsent", testAbsent},
		{"CreateAndRead", testCreateAndRead},
		{"CreateRefusedOnExisting", testCreateExisting},
		{"ReplaceNeedsTheCurrentVersion", testReplace},
		{"ReplaceOfAbsentRefused", testReplaceAbsent},
		{"ReplaceWithNoVersionNeverSent", testReplaceNoVersion},
		{"VersionsAreNew", testVersionsAreNew},
		{"VersionsAreNewAfterDelete", testVersionsAfterDelete},
		{"Delete", testDelete},
		{"OneCreateWins", testCreateRace},
		{"NoLostUpdate", testCounter},
		{"ReadAfterWriteAcrossHandles", testReadAfterWrite},
		{"Times", testTimes},
		{"KeyCharacters", testKeyCharacters},
		{"BadKeys", testBadKeys},
		{"ListPrefix", testListPrefix},
		{"ListPages", testListPages},
		{"ContextEnded", testContextEnded},
		{"BodySizes", testBodySizes},
		{"StartUpTest", testStartUp},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(s.start(t)) })
	}
}

type suite struct {
	open         func(*testing.T) bucket.Bucket
	keys, racers int
}

// A run is one test with its handles and its part of the key space.
type run struct {
	*testing.T
	suite
	ctx    context.Context
	b      bucket.Bucket
	prefix string
}

func (s suite) start(t *testing.T) *run {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	r := &run{T: t, suite: s, ctx: ctx, prefix: "buckettest/" + strings.ToLower(rand.Text()) + "/"}
	r.b = r.handle()
	t.Cleanup(func() {
		cancel()
		r.deleteAll()
	})
	return r
}

// handle opens another handle, closed at the end.
func (r *run) handle() bucket.Bucket {
	r.Helper()
	b := r.open(r.T)
	r.Cleanup(func() {
		if err := b.Close(); err != nil {
			r.Errorf("close: %v", err)
		}
	})
	return b
}

// deleteAll leaves the store as it was found.
func (r *run) deleteAll() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	keys, err := listAll(ctx, r.b, r.prefix, 0)
	if err != nil {
		r.Errorf("list for clean-up: %v", err)
	}
	r.parallel(16, func(worker int) {
		for i := worker; i < len(keys); i += 16 {
			if err := r.b.Delete(ctx, keys[i]); err != nil {
				r.Errorf("clean-up: %v", err)
			}
		}
	})
}

// parallel runs f n times at once and waits.
func (r *run) parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func (r *run) create(key, body string) bucket.Written {
	r.Helper()
	w, err := settle(r.ctx, func() (bucket.Written, error) { return r.b.Create(r.ctx, r.prefix+key, []byte(body)) })
	if err != nil {
		r.Fatalf("create %q: %v", key, err)
	}
	if w.Version == "" {
		r.Fatalf("create %q: empty version", key)
	}
	return w
}

func (r *run) replace(key, body string, v bucket.Version) bucket.Written {
	r.Helper()
	w, err := settle(r.ctx, func() (bucket.Written, error) { return r.b.Replace(r.ctx, r.prefix+key, []byte(body), v) })
	if err != nil {
		r.Fatalf("replace %q: %v", key, err)
	}
	return w
}

func (r *run) get(b bucket.Bucket, key string) bucket.Object {
	r.Helper()
	o, err := b.Get(r.ctx, r.prefix+key)
	if err != nil {
		r.Fatalf("get %q: %v", key, err)
	}
	return o
}

// holds requires that the object is exactly this.
func (r *run) holds(key, body string, v bucket.Version) {
	r.Helper()
	o := r.get(r.b, key)
	if string(o.Body) != body || o.Version != v {
		r.Errorf("%q holds %q at version %q, want %q at %q", key, o.Body, o.Version, body, v)
	}
}

func (r *run) want(what string, err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// settle sends a write again for as long as the store says only that it was
// busy, as the contract of ErrContended asks.
func settle(ctx context.Context, write func() (bucket.Written, error)) (bucket.Written, error) {
	for {
		w, err := write()
		if !errors.Is(err, bucket.ErrContended) || ctx.Err() != nil {
			return w, err
		}
	}
}

func listAll(ctx context.Context, b bucket.Bucket, prefix string, limit int) ([]string, error) {
	var keys []string
	for after := ""; ; {
		l, err := b.List(ctx, prefix, after, limit)
		if err != nil {
			return nil, err
		}
		if limit > 0 && len(l.Keys) > limit {
			return nil, fmt.Errorf("list with limit %d returned %d keys", limit, len(l.Keys))
		}
		keys = append(keys, l.Keys...)
		if l.Next == "" {
			return keys, nil
		}
		after = l.Next
	}
}

func testAbsent(r *run) {
	_, err := r.b.Get(r.ctx, r.prefix+"absent")
	r.want("get of absent", err, bucket.ErrNotExist)
}

func testCreateAndRead(r *run) {
	w := r.create("a", "hello")
	r.holds("a", "hello", w.Version)
}

func testCreateExisting(r *run) {
	w := r.create("a", "first")
	for _, body := range []string{"second", "first"} { // the same body is no excuse
		_, err := r.b.Create(r.ctx, r.prefix+"a", []byte(body))
		r.want("create of existing", err, bucket.ErrConflict)
	}
	r.holds("a", "first", w.Version)
}

func testReplace(r *run) {
	w1 := r.create("a", "one")
	w2 := r.replace("a", "two", w1.Version)
	r.holds("a", "two", w2.Version)
	_, err := r.b.Replace(r.ctx, r.prefix+"a", []byte("three"), w1.Version)
	r.want("replace with an old version", err, bucket.ErrConflict)
	other := r.create("b", "other")
	_, err = r.b.Replace(r.ctx, r.prefix+"a", []byte("four"), other.Version)
	r.want("replace with another object's version", err, bucket.ErrConflict)
	r.holds("a", "two", w2.Version)
	r.replace("a", "five", w2.Version)
}

func testReplaceAbsent(r *run) {
	w := r.create("a", "one")
	_, err := r.b.Replace(r.ctx, r.prefix+"absent", []byte("x"), w.Version)
	r.want("replace of absent", err, bucket.ErrConflict)
	_, err = r.b.Get(r.ctx, r.prefix+"absent")
	r.want("get after replace of absent", err, bucket.ErrNotExist)
}

func testReplaceNoVersion(r *run) {
	w := r.create("a", "one")
	_, err := r.b.Replace(r.ctx, r.prefix+"a", []byte("x"), "")
	r.want("replace with an empty version", err, bucket.ErrNotApplied)
	r.holds("a", "one", w.Version)
}

func testVersionsAreNew(r *run) {
	w := r.create("a", "0")
	seen := []bucket.Version{w.Version}
	for i := range 20 {
		w = r.replace("a", strconv.Itoa(i+1), w.Version)
		if slices.Contains(seen, w.Version) {
			r.Fatalf("version %q was given twice", w.Version)
		}
		seen = append(seen, w.Version)
	}
	again := r.replace("a", "20", w.Version) // the very same bytes
	w = r.replace("a", "0", again.Version)   // and old ones
	switch same := again.Version == seen[20] || w.Version == seen[0]; {
	case same && !r.b.Traits().BodyVersions:
		r.Errorf("equal bodies got equal versions, which Traits().BodyVersions does not declare")
	case same:
		r.Log("equal bodies get equal versions, as declared: the protocol is safe with it, because a lease's body has a counter and an ownership record's its epoch, so that none recurs")
	}
}

func testVersionsAfterDelete(r *run) {
	old := r.create("a", "one")
	if err := r.b.Delete(r.ctx, r.prefix+"a"); err != nil {
		r.Fatal(err)
	}
	w := r.create("a", "two")
	if w.Version == old.Version {
		r.Errorf("version %q was given again after a delete", w.Version)
	}
	_, err := r.b.Replace(r.ctx, r.prefix+"a", []byte("three"), old.Version)
	r.want("replace with a version from before the delete", err, bucket.ErrConflict)
}

func testDelete(r *run) {
	r.create("a", "one")
	for range 2 { // the second time it is absent, which is no error
		if err := r.b.Delete(r.ctx, r.prefix+"a"); err != nil {
			r.Fatalf("delete: %v", err)
		}
		_, err := r.b.Get(r.ctx, r.prefix+"a")
		r.want("get after delete", err, bucket.ErrNotExist)
	}
	r.create("a", "two")
}

func testCreateRace(r *run) {
	handles := []bucket.Bucket{r.b, r.handle()}
	for round := range 4 {
		key := fmt.Sprintf("race-%d", round)
		wins := make([]bool, r.racers)
		start := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() { close(start) })
		r.parallel(r.racers, func(i int) {
			<-start
			b := handles[i%len(handles)]
			_, err := settle(r.ctx, func() (bucket.Written, error) {
				return b.Create(r.ctx, r.prefix+key, fmt.Appendf(nil, "racer %d", i))
			})
			wins[i] = err == nil
			if err != nil {
				r.want("create that lost the race", err, bucket.ErrConflict)
			}
		})
		winner := slices.Index(wins, true)
		if winner < 0 || slices.Contains(wins[winner+1:], true) {
			r.Fatalf("not exactly one create won: %v", wins)
		}
		if o := r.get(r.b, key); string(o.Body) != fmt.Sprintf("racer %d", winner) {
			r.Fatalf("racer %d won, but the object holds %q", winner, o.Body)
		}
	}
}

// testCounter has every racer add one, the first time all at once. Bodies never
// recur, so it also holds for stores that derive the version from the body.
func testCounter(r *run) {
	handles := []bucket.Bucket{r.b, r.handle()}
	r.create("counter", "0")
	var allHaveRead sync.WaitGroup
	allHaveRead.Add(r.racers)
	r.parallel(r.racers, func(i int) { r.increment(handles[i%len(handles)], &allHaveRead) })
	if o := r.get(r.b, "counter"); string(o.Body) != strconv.Itoa(r.racers) {
		r.Errorf("%d increments were acknowledged, the counter is at %s", r.racers, o.Body)
	}
}

func (r *run) increment(b bucket.Bucket, allHaveRead *sync.WaitGroup) {
	for first := true; ; first = false {
		o, err := b.Get(r.ctx, r.prefix+"counter")
		if first {
			allHaveRead.Done()
			allHaveRead.Wait()
		}
		if err != nil {
			r.Errorf("read counter: %v", err)
			return
		}
		n, err := strconv.Atoi(string(o.Body))
		if err != nil {
			r.Errorf("counter holds %q", o.Body)
			return
		}
		_, err = b.Replace(r.ctx, r.prefix+"counter", []byte(strconv.Itoa(n+1)), o.Version)
		if err == nil {
			return
		}
		if !errors.Is(err, bucket.ErrConflict) && !errors.Is(err, bucket.ErrContended) {
			r.Errorf("replace counter: %v", err)
			return
		}
	}
}

func testReadAfterWrite(r *run) {
	other := r.handle()
	w := r.create("a", "0")
	for i := range 50 {
		want := strconv.Itoa(i + 1)
		w = r.replace("a", want, w.Version)
		if o := r.get(other, "a"); string(o.Body) != want || o.Version != w.Version {
			r.Fatalf("after a write of %s another handle read %q", want, o.Body)
		}
		key := fmt.Sprintf("list/%02d", i)
		r.create(key, "x")
		keys, err := listAll(r.ctx, other, r.prefix+"list/", 0)
		if err != nil || !slices.Contains(keys, r.prefix+key) {
			r.Fatalf("after a create of %s another handle listed %q, %v", key, keys, err)
		}
	}
}

func testBodySizes(r *run) {
	largest := string(bytes.Repeat([]byte("x"), bucket.MaxBody))
	for key, body := range map[string]string{"empty": "", "binary": "\x00\xff\r\n", "largest": largest} {
		w := r.create(key, body)
		if o := r.get(r.b, key); string(o.Body) != body || o.Version != w.Version {
			r.Errorf("%s body: read %d bytes at version %q, wrote %d at %q", key, len(o.Body), o.Version, len(body), w.Version)
		}
	}
	_, err := r.b.Create(r.ctx, r.prefix+"larger", []byte(largest+"x"))
	r.want("create of a body over MaxBody", err, bucket.ErrNotApplied)
	_, err = r.b.Get(r.ctx, r.prefix+"larger")
	r.want("get after it", err, bucket.ErrNotExist)
}
