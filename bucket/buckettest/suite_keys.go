package buckettest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/bucket"
)

// cellCharacters are all that the name of a cell may hold besides letters and
// digits.
const cellCharacters = "_-.:$@+=~"

func testKeyCharacters(r *run) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	names := []string{letters + cellCharacters, strings.Repeat("n", 200)}
	for _, c := range cellCharacters {
		names = append(names, fmt.Sprintf("x%c", c), fmt.Sprintf("%cx", c), fmt.Sprintf("%c%c%c", c, c, c))
	}
	names = append(names, "A", "a", "a+b=c")
	var want []string
	for _, name := range names {
		key := "cells/" + name + "/own.json"
		w := r.create(key, name)
		r.holds(key, name, w.Version)
		want = append(want, r.prefix+key)
	}
	slices.Sort(want)
	keys, err := listAll(r.ctx, r.b, r.prefix, 0)
	if err != nil {
		r.Fatal(err)
	}
	if !slices.Equal(keys, want) {
		r.Errorf("listed\n%q\nwant\n%q", keys, want)
	}
}

func testBadKeys(r *run) {
	for _, key := range []string{"", "/a", "a/", "a//b", "a/../b", "./a", "a\x00b", "a\nb", "\xff", strings.Repeat("k", bucket.MaxKey+1)} {
		_, err := r.b.Create(r.ctx, key, []byte("x"))
		r.want(fmt.Sprintf("create with key %.20q", key), err, bucket.ErrNotApplied)
		if _, err := r.b.Get(r.ctx, key); err == nil {
			r.Errorf("get with key %.20q succeeded", key)
		}
	}
}

func testListPrefix(r *run) {
	// No key is also the folder of another, which stores on a file system
	// cannot hold.
	for _, key := range []string{"a/1", "a/2", "a-b", "ab/1", "a0", "b/1", "B/1"} {
		r.create(key, "x")
	}
	for _, c := range []struct {
		prefix, after, want string
	}{
		{"", "", "B/1 a-b a/1 a/2 a0 ab/1 b/1"},
		{"a", "", "a-b a/1 a/2 a0 ab/1"},
		{"a/", "", "a/1 a/2"},
		{"a/", "a/1", "a/2"},
		{"a/", "a/0", "a/1 a/2"},
		{"a/", "a/2", ""},
		{"a/", "b", ""},
		{"a/", "B", "a/1 a/2"},
		{"a", "a", "a-b a/1 a/2 a0 ab/1"},
		{"a", "a-b", "a/1 a/2 a0 ab/1"},
		{"a-b", "a-b", ""},
		{"c", "", ""},
	} {
		after := c.after
		if after != "" {
			after = r.prefix + after
		}
		l, err := r.b.List(r.ctx, r.prefix+c.prefix, after, 0)
		if err != nil {
			r.Fatal(err)
		}
		got := strings.ReplaceAll(strings.Join(l.Keys, " "), r.prefix, "")
		if got != c.want || l.Next != "" {
			r.Errorf("list %q after %q: got %q, next %q; want %q", c.prefix, c.after, got, l.Next, c.want)
		}
	}
}

func testListPages(r *run) {
	want := make([]string, r.keys)
	for i := range want {
		want[i] = fmt.Sprintf("%spage/%05d", r.prefix, i)
	}
	var next atomic.Int64
	r.parallel(16, func(int) {
		for i := next.Add(1) - 1; i < int64(len(want)); i = next.Add(1) - 1 {
			if _, err := r.b.Create(r.ctx, want[i], []byte("x")); err != nil {
				r.Errorf("create: %v", err)
				return
			}
		}
	})
	r.create("page0", "comes after all of page/")
	for _, limit := range []int{0, r.keys/3 + 1, r.keys} {
		keys, err := listAll(r.ctx, r.b, r.prefix+"page/", limit)
		if err != nil {
			r.Fatal(err)
		}
		if !slices.Equal(keys, want) {
			r.Errorf("list with limit %d: %d keys, want the %d created, ascending", limit, len(keys), len(want))
		}
	}
}

func testTimes(r *run) {
	rounding := r.b.Traits().Rounding
	w := r.create("a", "one")
	first := r.get(r.b, "a")
	r.sane(first, rounding)
	if !w.Date.IsZero() && first.Date.Sub(w.Date) < -2*rounding {
		r.Errorf("the store's clock went from %v at a write back to %v at a read", w.Date, first.Date)
	}
	again := r.get(r.b, "a")
	r.sane(again, rounding)
	if !again.Modified.Equal(first.Modified) {
		r.Errorf("Modified changed without a write: %v, then %v", first.Modified, again.Modified)
	}
	r.replace("a", "two", w.Version)
	after := r.get(r.b, "a")
	r.sane(after, rounding)
	if after.Modified.Before(first.Modified) || rounding == 0 && after.Modified.Equal(first.Modified) {
		r.Errorf("a write did not move Modified on: %v, then %v", first.Modified, after.Modified)
	}
}

// sane allows for two roundings: some stores cache Date for that long.
func (r *run) sane(o bucket.Object, rounding time.Duration) {
	r.Helper()
	if o.Date.IsZero() || o.Modified.IsZero() {
		r.Fatalf("an object just written has no times: %+v", o.Stamps)
	}
	if age := o.Date.Sub(o.Modified); age < -2*rounding || age > time.Minute {
		r.Errorf("an object just written is %v old: %+v", age, o.Stamps)
	}
}

func testContextEnded(r *run) {
	w := r.create("a", "one")
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	_, err := r.b.Get(ctx, r.prefix+"a")
	r.want("get", err, context.Canceled)
	_, err = r.b.List(ctx, r.prefix, "", 0)
	r.want("list", err, context.Canceled)
	_, err = r.b.Create(ctx, r.prefix+"b", []byte("x"))
	r.want("create", err, bucket.ErrNotApplied)
	r.want("create", err, context.Canceled)
	_, err = r.b.Replace(ctx, r.prefix+"a", []byte("x"), w.Version)
	r.want("replace", err, bucket.ErrNotApplied)
	r.want("delete", r.b.Delete(ctx, r.prefix+"a"), bucket.ErrNotApplied)
	r.holds("a", "one", w.Version)
	_, err = r.b.Get(r.ctx, r.prefix+"b")
	r.want("get", err, bucket.ErrNotExist)
}

func testStartUp(r *run) {
	if err := bucket.Test(r.ctx, r.b, r.prefix+"probe", nil); err != nil {
		r.Error(err)
	}
	keys, err := listAll(r.ctx, r.b, r.prefix, 0)
	if err != nil || len(keys) > 0 {
		r.Errorf("the start-up test left %q behind, %v", keys, err)
	}
}
