// Package mem is a bucket in memory, for tests, simulation and single-process
// use. It is linearizable, starts no goroutines, and reads no clock but the one
// it was given, so it runs under testing/synctest and in a simulator whose
// runs must repeat exactly.
package mem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenure-go/tenure/bucket"
)

// Store is the memory that several handles share, as several nodes share one
// bucket.
type Store struct {
	now func() time.Time

	mu      sync.Mutex
	objects map[string]bucket.Object
	keys    []string // those of objects, ascending: a listing must not depend on map order
	last    uint64   // the version given out last; never reused, also not after a delete
}

// NewStore makes an empty store that stamps objects and answers with now, which
// must never go backwards. With nil it counts from an arbitrary date by the
// process's monotonic clock.
func NewStore(now func() time.Time) *Store {
	if now == nil {
		now = sinceNow()
	}
	return &Store{now: now, objects: map[string]bucket.Object{}}
}

// sinceNow returns a clock that a step of the wall clock does not move.
func sinceNow() func() time.Time {
	start := time.Now()
	epoch := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time { return epoch.Add(time.Since(start)) }
}

// Open returns a new handle. Closing it does not touch the store.
func (s *Store) Open() *Bucket { return &Bucket{store: s} }

// New is the handle of a store of its own.
func New() *Bucket { return NewStore(nil).Open() }

// Bucket is one handle on a Store. It implements bucket.Bucket.
type Bucket struct {
	store *Store

	mu     sync.Mutex
	closed bool
}

var _ bucket.Bucket = (*Bucket)(nil)

var errClosed = errors.New("this handle of the memory bucket is closed")

func (b *Bucket) open() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	return nil
}

// Get implements bucket.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (bucket.Object, error) {
	if err := errors.Join(bucket.CheckRead(ctx, key), b.open()); err != nil {
		return bucket.Object{}, err
	}
	return b.store.get(key)
}

// Create implements bucket.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if err := b.checkWrite(bucket.CheckWrite(ctx, key, body)); err != nil {
		return bucket.Written{}, err
	}
	return b.store.write(key, body, "")
}

// Replace implements bucket.Bucket.
func (b *Bucket) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	if err := b.checkWrite(bucket.CheckReplace(ctx, key, body, v)); err != nil {
		return bucket.Written{}, err
	}
	return b.store.write(key, body, v)
}

// Delete implements bucket.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := b.checkWrite(bucket.CheckWrite(ctx, key, nil)); err != nil {
		return err
	}
	b.store.delete(key)
	return nil
}

// List implements bucket.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	if err := errors.Join(ctx.Err(), b.open()); err != nil {
		return bucket.Listing{}, err
	}
	return b.store.list(prefix, after, bucket.PageLimit(limit)), nil
}

// Traits implements bucket.Bucket.
func (b *Bucket) Traits() bucket.Traits { return bucket.Traits{} }

// Fresh implements bucket.Bucket; there are no connections.
func (b *Bucket) Fresh() {}

// Close implements bucket.Bucket.
func (b *Bucket) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

func (b *Bucket) checkWrite(err error) error {
	if err != nil {
		return err
	}
	if err := b.open(); err != nil {
		return bucket.NotApplied(err)
	}
	return nil
}

func (s *Store) get(key string) (bucket.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	date := s.now() // before the record is looked at: an age must not come out too large
	o, ok := s.objects[key]
	if !ok {
		return bucket.Object{}, fmt.Errorf("object %q: %w", key, bucket.ErrNotExist)
	}
	o.Body = slices.Clone(o.Body)
	o.Date = date
	return o, nil
}

// write applies a Replace, or with no version a Create.
func (s *Store) write(key string, body []byte, v bucket.Version) (bucket.Written, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cur := s.objects[key].Version; cur != v {
		return bucket.Written{}, fmt.Errorf("object %q: %w", key, bucket.ErrConflict)
	}
	if v == "" {
		i, _ := slices.BinarySearch(s.keys, key)
		s.keys = slices.Insert(s.keys, i, key)
	}
	s.last++
	o := bucket.Object{Body: slices.Clone(body), Version: bucket.Version(strconv.FormatUint(s.last, 10))}
	o.Modified = s.now()
	s.objects[key] = o
	return bucket.Written{Version: o.Version, Date: o.Modified}, nil
}

func (s *Store) delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := slices.BinarySearch(s.keys, key); ok {
		s.keys = slices.Delete(s.keys, i, i+1)
		delete(s.objects, key)
	}
}

func (s *Store) list(prefix, after string, limit int) bucket.Listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := slices.BinarySearch(s.keys, max(prefix, after))
	if found && after >= prefix {
		i++
	}
	var l bucket.Listing
	for _, key := range s.keys[i:] {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		if len(l.Keys) == limit {
			l.Next = l.Keys[limit-1]
			break
		}
		l.Keys = append(l.Keys, key)
	}
	return l
}
