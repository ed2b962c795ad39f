package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/mem"
)

// unconditional is a store that accepts conditions and ignores some of them.
type unconditional struct {
	bucket.Bucket
	create, replace bool
}

func (u unconditional) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if o, err := u.Get(ctx, key); err == nil && u.create {
		return u.Bucket.Replace(ctx, key, body, o.Version)
	}
	return u.Bucket.Create(ctx, key, body)
}

func (u unconditional) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	if o, err := u.Get(ctx, key); err == nil && u.replace {
		v = o.Version
	}
	return u.Bucket.Replace(ctx, key, body, v)
}

// edited changes what reads answer.
type edited struct {
	bucket.Bucket
	get  func(*bucket.Object)
	list func(*bucket.Listing)
}

func (e edited) Get(ctx context.Context, key string) (bucket.Object, error) {
	o, err := e.Bucket.Get(ctx, key)
	if err == nil && e.get != nil {
		e.get(&o)
	}
	return o, err
}

func (e edited) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	l, err := e.Bucket.List(ctx, prefix, after, limit)
	if err == nil && e.list != nil {
		e.list(&l)
	}
	return l, err
}

// fails is a store whose n-th operation of a kind fails.
func fails(kind buckettest.Kind, n int64, err error) func(bucket.Bucket) bucket.Bucket {
	return func(b bucket.Bucket) bucket.Bucket {
		when := buckettest.And(buckettest.Is(kind), buckettest.Nth(n))
		return buckettest.Inject(b, buckettest.Rule{When: when, Do: buckettest.FailBefore(err)})
	}
}

func TestStartUpNamesTheFailedProperty(t *testing.T) {
	broken := fmt.Errorf("%w: it answered NoSuchKey", bucket.ErrBroken)
	lost := errors.New("connection reset")
	for _, c := range []struct {
		name, step string
		broken     bool
		store      func(bucket.Bucket) bucket.Bucket
	}{
		{"create ignores its condition", "create-existing", true, func(b bucket.Bucket) bucket.Bucket { return unconditional{b, true, false} }},
		{"replace ignores its condition", "replace-old", true, func(b bucket.Bucket) bucket.Bucket { return unconditional{b, false, true} }},
		{"create of absent says NoSuchKey", "create", true, fails(buckettest.Create, 1, broken)},
		{"create of absent rejected", "create", true, fails(buckettest.Create, 1, bucket.ErrConflict)},
		{"replace rejected", "replace", true, fails(buckettest.Replace, 1, bucket.ErrConflict)},
		{"reading absent denied", "absent", true, fails(buckettest.Get, 1, bucket.ErrRefused)},
		{"read-only", "create", true, fails(buckettest.Create, 1, bucket.ErrRefused)},
		{"written object absent", "read", true, fails(buckettest.Get, 2, bucket.ErrNotExist)},
		{"delete denied", "delete", true, fails(buckettest.Delete, 1, bucket.ErrRefused)},
		{"unreachable at once", "absent", false, fails(buckettest.Get, 1, lost)},
		{"unreachable later", "replace", false, fails(buckettest.Replace, 1, lost)},
		{"lock not got", "create", false, fails(buckettest.Create, 1, bucket.ErrNotApplied)},
		{"stale read", "read", true, func(b bucket.Bucket) bucket.Bucket {
			return edited{Bucket: b, get: func(o *bucket.Object) { o.Body = []byte("old") }}
		}},
		{"no times", "times", true, func(b bucket.Bucket) bucket.Bucket {
			return edited{Bucket: b, get: func(o *bucket.Object) { o.Stamps = bucket.Stamps{} }}
		}},
		{"date ahead", "times", true, func(b bucket.Bucket) bucket.Bucket {
			return edited{Bucket: b, get: func(o *bucket.Object) { o.Date = o.Date.Add(time.Minute) }}
		}},
		{"date far behind", "times", true, func(b bucket.Bucket) bucket.Bucket {
			return edited{Bucket: b, get: func(o *bucket.Object) { o.Date = o.Date.Add(-time.Minute) }}
		}},
		{"not in the list", "list", true, func(b bucket.Bucket) bucket.Bucket {
			return edited{Bucket: b, list: func(l *bucket.Listing) { l.Keys = nil }}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := mem.New()
			var last bucket.Step
			err := bucket.Test(t.Context(), c.store(b), "probe/n-1", func(s bucket.Step) { last = s })
			var failed *bucket.TestError
			if !errors.As(err, &failed) || failed.Step != c.step || errors.Is(err, bucket.ErrBroken) != c.broken {
				t.Fatalf("error %v, want one of step %q, broken: %v", err, c.step, c.broken)
			}
			if last.Err != err || last.Name != c.step {
				t.Errorf("last reported step %+v", last)
			}
			if c.broken && failed.Advice == "" {
				t.Error("no advice")
			}
			if l, err := b.List(t.Context(), "", "", 0); err != nil || len(l.Keys) > 0 {
				t.Errorf("left behind %v, %v", l.Keys, err)
			}
		})
	}
}

func TestStartUpReportsEveryStep(t *testing.T) {
	var names []string
	err := bucket.Test(t.Context(), mem.New(), "probe/n-1", func(s bucket.Step) {
		names = append(names, s.Name)
		if s.Err != nil || s.Property == "" {
			t.Errorf("step %+v", s)
		}
	})
	want := "absent create create-existing replace replace-old read times list delete"
	if got := strings.Join(names, " "); err != nil || got != want {
		t.Errorf("steps %q, %v; want %q", got, err, want)
	}
}

func TestStartUpWaitsOutThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := func(n int64, err error) buckettest.Rule {
			return buckettest.Rule{When: buckettest.First(n), Do: buckettest.FailBefore(err)}
		}
		b := buckettest.Inject(mem.New(), throttle(5, bucket.ErrThrottled), throttle(5, bucket.ErrContended))
		if err := bucket.Test(t.Context(), b, "probe/n-1", nil); err != nil {
			t.Error(err)
		}
		b.Set(throttle(1e9, bucket.ErrThrottled))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := bucket.Test(ctx, b, "probe/n-2", nil)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, bucket.ErrBroken) {
			t.Errorf("throttled for ever: %v", err)
		}
	})
}
