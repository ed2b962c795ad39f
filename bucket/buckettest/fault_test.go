package buckettest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/mem"
)

// attempt creates "k" through a fault, with a second of patience, and says
// whether it was there afterwards.
func attempt(t *testing.T, fault buckettest.Fault) (took time.Duration, there bool, err error) {
	t.Helper()
	b := mem.New()
	f := buckettest.Inject(b, buckettest.Rule{When: buckettest.Writes, Do: fault})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	w, err := f.Create(ctx, "k", []byte("x"))
	if err != nil && w != (bucket.Written{}) {
		t.Errorf("a result beside an error: %+v", w)
	}
	took = time.Since(start)
	_, absent := b.Get(t.Context(), "k")
	return took, absent == nil, err
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault buckettest.Fault
		took  time.Duration
		there bool
		err   error
	}{
		{"fail before", buckettest.FailBefore(nil), 0, false, buckettest.ErrInjected},
		{"lose answer", buckettest.LoseAnswer(nil), 0, true, buckettest.ErrInjected},
		{"contend", buckettest.Contend(), 0, false, bucket.ErrContended},
		{"short delay", buckettest.Delay(time.Millisecond), time.Millisecond, true, nil},
		{"long delay", buckettest.Delay(time.Hour), time.Second, false, context.DeadlineExceeded},
		{"hang", buckettest.Hang(), time.Second, false, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, there, err := attempt(t, c.fault)
				if took != c.took || there != c.there || !errors.Is(err, c.err) {
					t.Errorf("took %v, applied %v, error %v; want %v, %v, %v", took, there, err, c.took, c.there, c.err)
				}
			})
		})
	}
}

func TestApplyLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		release, applied := make(chan struct{}), make(chan error)
		f := buckettest.Inject(b, buckettest.Rule{When: buckettest.Any, Do: buckettest.ApplyLate(release, applied)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Create(ctx, "k", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("create: %v", err)
		}
		if _, err := b.Get(t.Context(), "k"); !errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("applied too soon: %v", err)
		}
		close(release)
		if err := <-applied; err != nil {
			t.Error(err)
		}
		if _, err := b.Get(t.Context(), "k"); err != nil {
			t.Errorf("after the release: %v", err)
		}
	})
}

func TestPredicates(t *testing.T) {
	second := buckettest.And(buckettest.Is(buckettest.Replace), buckettest.Key("nodes/"), buckettest.Nth(2))
	f := buckettest.Inject(mem.New(), buckettest.Rule{When: second, Do: buckettest.FailBefore(nil)})
	w, err := f.Create(t.Context(), "nodes/a", nil)
	for i := range 3 {
		if err != nil {
			t.Fatal(err)
		}
		next, err := f.Replace(t.Context(), "nodes/a", nil, w.Version)
		if failed := errors.Is(err, buckettest.ErrInjected); failed != (i == 1) {
			t.Errorf("replace %d: %v", i, err)
		}
		if err == nil {
			w = next
		}
	}
	f.Set()
	if _, err := f.Replace(t.Context(), "nodes/a", nil, w.Version); err != nil {
		t.Error(err)
	}
}

func TestCount(t *testing.T) {
	c := buckettest.Count(mem.New())
	c.Create(t.Context(), "cells/a/own.json", nil)
	c.Create(t.Context(), "cells/a/own.json", nil) // rejected, and counted
	c.Get(t.Context(), "nodes/a.json")
	c.List(t.Context(), "nodes/", "", 0)
	c.Delete(t.Context(), "probe/a")
	if n := c.N(buckettest.Create, "cells"); n != 2 {
		t.Errorf("%d creates of cells", n)
	}
	if got := c.Counts(); len(got) != 4 {
		t.Errorf("counts %v", got)
	}
	c.Reset()
	if got := c.Counts(); len(got) != 0 {
		t.Errorf("counts after reset %v", got)
	}
}

// The wrappers are buckets.
func TestWrappersConform(t *testing.T) {
	store := mem.NewStore(nil)
	buckettest.Run(t, func(*testing.T) bucket.Bucket {
		return buckettest.Count(buckettest.Inject(store.Open()))
	}, buckettest.Keys(50), buckettest.Racers(8))
}
