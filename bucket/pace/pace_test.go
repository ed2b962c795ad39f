package pace_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/mem"
	"github.com/tenure-go/tenure/bucket/pace"
)

func class(key string) string {
	first, _, _ := strings.Cut(key, "/")
	return first
}

// fixture is a store behind a Pace, that does what the rules say.
type fixture struct {
	*buckettest.Faulty
	pace *pace.Pace
	sent *buckettest.Counted
	b    bucket.Bucket // paced
	lane bucket.Bucket
}

func newFixture(t *testing.T, random func() float64) *fixture {
	t.Helper()
	f := &fixture{pace: pace.New(pace.Options{Class: class, Random: random})}
	f.Faulty = buckettest.Inject(mem.NewStore(time.Now).Open())
	f.sent = buckettest.Count(f.Faulty)
	f.b, f.lane = f.pace.Bucket(f.sent), f.pace.Lane(f.sent)
	if _, err := f.b.Create(t.Context(), "cells/x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	f.sent.Reset()
	return f
}

func half() float64 { return 0.5 }

func fails(err error) buckettest.Rule {
	return buckettest.Rule{When: buckettest.Any, Do: buckettest.FailBefore(err)}
}

func TestReadsAreTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		sends int
	}{
		{"unknown", errors.New("500"), 4},
		{"throttled", bucket.ErrThrottled, 4},
		{"absent", bucket.ErrNotExist, 1},
		{"refused", bucket.ErrRefused, 1},
		{"broken", bucket.ErrBroken, 1},
		{"too large", bucket.ErrTooLarge, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, half)
			f.Set(fails(c.err))
			_, err := f.b.Get(t.Context(), "cells/x")
			if n := f.sent.N(buckettest.Get, "cells"); !errors.Is(err, c.err) || n != c.sends {
				t.Errorf("%s: a read was sent %d times and gave %v, want %d", c.name, n, err, c.sends)
			}
			_, err = f.b.List(t.Context(), "cells/", "", 0)
			if n := f.sent.N(buckettest.List, "cells"); !errors.Is(err, c.err) || n != c.sends {
				t.Errorf("%s: a list was sent %d times and gave %v, want %d", c.name, n, err, c.sends)
			}
		})
	}
}

func TestPausesAreRandomAndGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, random := range []float64{0, 0.5, 0.999} {
			f := newFixture(t, func() float64 { return random })
			var at []time.Duration
			from := time.Now()
			f.Set(buckettest.Rule{When: buckettest.Any, Do: func(context.Context, buckettest.Call, func(context.Context) error) error {
				at = append(at, time.Since(from))
				return errors.New("500")
			}})
			f.b.Get(t.Context(), "cells/x")
			want := time.Duration(0)
			for n := range at {
				if at[n] != want {
					t.Errorf("with %v: tries at %v, want the one after %d at %v", random, at, n, want)
				}
				want += time.Duration(random * float64(50*time.Millisecond<<n))
			}
		}
	})
}

func TestASecondTryServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, half)
		f.Set(buckettest.Rule{When: buckettest.First(2), Do: buckettest.FailBefore(nil)})
		if o, err := f.b.Get(t.Context(), "cells/x"); err != nil || string(o.Body) != "x" {
			t.Errorf("read %q, %v", o.Body, err)
		}
	})
}

// A write is sent once, whatever comes of it.
func TestWritesAreNotTriedAgain(t *testing.T) {
	for _, failure := range []error{nil, bucket.ErrThrottled, bucket.ErrContended, bucket.ErrConflict, bucket.ErrNotApplied} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, half)
			f.Set(fails(failure))
			_, err := f.b.Create(t.Context(), "cells/y", nil)
			_, err2 := f.b.Replace(t.Context(), "cells/x", nil, "1")
			err3 := f.b.Delete(t.Context(), "cells/x")
			if err == nil || err2 == nil || err3 == nil {
				t.Errorf("no error: %v, %v, %v", err, err2, err3)
			}
			for _, k := range []buckettest.Kind{buckettest.Create, buckettest.Replace, buckettest.Delete} {
				if n := f.sent.N(k, "cells"); n != 1 {
					t.Errorf("%v: a %s was sent %d times", failure, k, n)
				}
			}
		})
	}
}

func TestRetriesEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func() float64 { return 0.999 })
		f.Set(fails(nil))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		from := time.Now()
		_, err := f.b.Get(ctx, "cells/x")
		// A third try would come after 150ms: it is not waited for.
		if n, took := f.sent.N(buckettest.Get, "cells"), time.Since(from); n != 2 || took > 50*time.Millisecond || !errors.Is(err, buckettest.ErrInjected) {
			t.Errorf("%d tries in %v, %v", n, took, err)
		}
	})
}

// A store that fails everything is sent little more than what it was asked for.
func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, half)
		f.Set(fails(nil))
		for range 1000 {
			f.b.Get(t.Context(), "cells/x")
		}
		if n := f.sent.N(buckettest.Get, "cells"); n != 1050 {
			t.Errorf("1000 reads were sent %d times, want 1050", n)
		}
		f.Set()
		for range 50 { // earn ten
			f.b.Get(t.Context(), "cells/x")
		}
		f.Set(fails(nil))
		f.sent.Reset()
		for range 1000 {
			f.b.Get(t.Context(), "cells/x")
		}
		if n := f.sent.N(buckettest.Get, "cells"); n < 1009 || n > 1010 {
			t.Errorf("after 50 that succeeded 1000 reads were sent %d times, want 1010", n)
		}
		if s := f.pace.Stats(); s.Retries < 59 || s.Retries > 60 || s.Unretried == 0 {
			t.Errorf("%d retries, %d not allowed", s.Retries, s.Unretried)
		}
	})
}

// What one client was told holds for all of the same bucket, but for the lane.
func TestRetryAfterIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, half)
		other := f.pace.Bucket(f.sent)
		f.Set(fails(bucket.Throttled(nil, 3*time.Second)))
		if _, err := f.lane.Get(t.Context(), "nodes/a"); bucket.RetryAfter(err) != 3*time.Second {
			t.Fatal(err)
		}
		f.Set()
		from := time.Now()
		if _, err := f.lane.Create(t.Context(), "nodes/a", nil); err != nil || time.Since(from) != 0 {
			t.Errorf("the lane waited for %v, %v", time.Since(from), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := bucket.Wait(ctx, other)
		if !errors.Is(err, bucket.ErrThrottled) || time.Since(from) != 0 || bucket.RetryAfter(err) < 3*time.Second {
			t.Errorf("a claim with 2s left: %v after %v", err, time.Since(from))
		}
		if _, err := other.Get(ctx, "cells/x"); !errors.Is(err, bucket.ErrThrottled) || time.Since(from) != 0 {
			t.Errorf("a read with 2s left: %v after %v", err, time.Since(from))
		}
		if err := bucket.Wait(t.Context(), other); err != nil || time.Since(from) < 3*time.Second || time.Since(from) > 3100*time.Millisecond {
			t.Errorf("a claim with time: %v after %v", err, time.Since(from))
		}
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, half)
		f.Set(fails(bucket.Throttled(nil, time.Hour)))
		f.lane.Get(t.Context(), "nodes/a")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		from := time.Now()
		if err := bucket.Wait(ctx, f.b); !errors.Is(err, bucket.ErrNotApplied) || time.Since(from) != time.Second {
			t.Errorf("%v after %v", err, time.Since(from))
		}
		// An hour is more than any store may ask for.
		if err := bucket.Wait(t.Context(), f.b); err != nil || time.Since(from) > 2*time.Minute {
			t.Errorf("%v after %v", err, time.Since(from))
		}
	})
}

// While a store throttles it is asked about twice a second, however many want
// something of it; soon after, it is at full speed again.
func TestThrottleIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rand.New(rand.NewPCG(1, 2)).Float64)
		var mu sync.Mutex
		var at []time.Duration
		from := time.Now()
		f.Set(buckettest.Rule{When: buckettest.Any, Do: func(_ context.Context, _ buckettest.Call, do func(context.Context) error) error {
			mu.Lock()
			at = append(at, time.Since(from))
			mu.Unlock()
			if time.Since(from) < 60*time.Second {
				return bucket.ErrThrottled
			}
			return nil
		}})
		var work sync.WaitGroup
		for time.Since(from) < 90*time.Second {
			work.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				f.b.List(ctx, "cells/", "", 0)
			})
			<-time.After(10 * time.Millisecond)
		}
		work.Wait()
		during := between(at, 5*time.Second, 60*time.Second)
		if during < 55 || during > 220 {
			t.Errorf("%d requests in the 55s of throttling, at 5500 wanted; want about two a second", during)
		}
		if after := between(at, 66*time.Second, 76*time.Second); after < 990 {
			t.Errorf("%d requests in 10s, 6s after the throttling, at 1000 wanted", after)
		}
		if s := f.pace.Stats(); s.Gap != 0 || s.Held == 0 || s.Refused == 0 {
			t.Errorf("%+v", s)
		}
	})
}

func between(at []time.Duration, from, to time.Duration) (n int) {
	for _, d := range at {
		if d >= from && d < to {
			n++
		}
	}
	return n
}

// store takes so many requests a second, and throttles the rest.
type store struct {
	bucket.Bucket
	most   int
	mu     sync.Mutex
	second time.Time
	n      int
	asked  int
	served int
}

func (s *store) Get(ctx context.Context, key string) (bucket.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now().Truncate(time.Second); now != s.second {
		s.second, s.n = now, 0
	}
	s.n++
	s.asked++
	if s.n > s.most {
		return bucket.Object{}, bucket.ErrThrottled
	}
	s.served++
	return s.Bucket.Get(ctx, key)
}

// Ten nodes want ten times what the store gives, again each second. It is sent
// little of that, and much of what can be served is.
func TestAFleetDoesNotAmplifyAThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Bucket: mem.NewStore(time.Now).Open(), most: 100}
		if _, err := s.Create(t.Context(), "cells/x", nil); err != nil {
			t.Fatal(err)
		}
		var work sync.WaitGroup
		for i := range 10 {
			b := pace.New(pace.Options{Class: class, Random: rand.New(rand.NewPCG(1, uint64(i))).Float64}).Bucket(s)
			for range 100 {
				work.Go(func() {
					for from := time.Now(); time.Since(from) < time.Minute; <-time.After(time.Second) {
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
						b.Get(ctx, "cells/x")
						cancel()
					}
				})
			}
		}
		work.Wait()
		could := 60 * s.most
		if s.asked > 3*could || s.served < could/4 {
			t.Errorf("%d of 60000 wanted requests were sent and %d served, %d could have been", s.asked, s.served, could)
		}
		t.Logf("%d of 60000 wanted requests were sent and %d served, %d could have been", s.asked, s.served, could)
	})
}

func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, half)
		f.Set(buckettest.Rule{When: buckettest.Is(buckettest.Get), Do: buckettest.Delay(time.Second)})
		f.b.Get(t.Context(), "cells/x")
		f.b.Get(t.Context(), "cells/y")
		f.Set()
		f.lane.Create(t.Context(), "nodes/a", nil)
		f.lane.Create(t.Context(), "nodes/a", nil)
		for _, err := range []error{nil, bucket.ErrThrottled, bucket.ErrContended, bucket.ErrRefused, bucket.ErrNotApplied, bucket.ErrBroken} {
			f.Set(fails(err))
			f.b.Replace(t.Context(), "cells/x", nil, "1")
		}
		f.Set(buckettest.Rule{When: buckettest.First(1), Do: buckettest.FailBefore(nil)})
		f.b.List(t.Context(), "nodes/", "", 0)
		f.b.Delete(t.Context(), "probe/1")
		var got []string
		for _, c := range f.pace.Stats().Counts {
			got = append(got, fmt.Sprintf("%s %s %s %d", c.Kind, c.Class, c.Outcome, c.N))
			if c.Kind == "get" && c.Took != time.Second {
				t.Errorf("%+v, want a second", c)
			}
		}
		want := []string{
			"create cells ok 1", "create nodes ok 1", "create nodes rejected 1", "delete probe ok 1",
			"get cells absent 1", "get cells ok 1", "list nodes failed 1", "list nodes ok 1",
			"replace cells ambiguous 1", "replace cells broken 1", "replace cells contended 1",
			"replace cells not-applied 1", "replace cells refused 1", "replace cells throttled 1",
		}
		if !slices.Equal(got, want) {
			t.Errorf("counted\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
