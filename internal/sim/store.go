package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/mem"
	"github.com/tenure-go/tenure/internal/wire"
)

// store is the bucket in memory, with a clock of its own, and a network that
// leads to it.
type store struct {
	w       *world
	mem     *mem.Bucket
	skew    int64 // steps of its clock
	stepped int64 // when it stepped last
	cached  time.Time

	spoiled map[string]bool // keys that an operator has written to
	asked   map[string]int  // requests, by key
}

func newStore(w *world) *store {
	s := &store{w: w, spoiled: map[string]bool{}, asked: map[string]int{}, stepped: -endless / 2}
	s.mem = mem.NewStore(s.now).Open()
	return s
}

var storeEpoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// now is the store's clock: to the second, in an HTTP date.
func (s *store) now() time.Time {
	t := storeEpoch.Add(time.Duration(s.w.plan.storeRate.span(s.w.t) + s.skew))
	if s.w.plan.http {
		t = t.Truncate(time.Second)
	}
	return t
}

// date is the stamp of an answer. A server may keep it for as long as it rounds.
func (s *store) date() time.Time {
	now := s.now()
	if !s.w.plan.http {
		return now
	}
	if old := s.cached; old.After(now) || now.Sub(old) > time.Second || s.w.rng.IntN(2) == 0 {
		s.cached = now
	}
	return s.cached
}

// step sets the store's clock: far enough to be noticed by a sample, as rule 1
// assumes, and not often. A store that stamps its own fine-grained clock counts the
// time since the machine's start, which nobody sets.
func (s *store) step(f *fault) {
	ttl := s.w.plan.ttl
	if s.w.t-s.stepped < 3*ttl || !s.w.plan.http {
		return
	}
	s.stepped = s.w.t
	by := 2*ttl + int64(f.number(1000))*ttl/10
	if f.mode%2 == 0 {
		by = -by
	}
	s.skew += by
}

// class is what kind of record a request is about.
type class uint8

const (
	classOther class = iota // the start: no faults but that it is out of reach
	classCell
	classLease // of another node
	classOwn   // of the node itself
)

// handle is one of a node's three ways to the bucket: a bucket.Bucket.
type handle struct {
	p   *proc
	own bool // for the node's own lease
}

var _ bucket.Bucket = handle{}

// op is one request to the bucket, until its answer is there.
type op struct {
	p       *proc
	class   class
	verb    string
	key     string
	body    []byte
	version bucket.Version
	after   string
	limit   int

	done    bool
	err     error
	obj     bucket.Object
	written bucket.Written
	list    bucket.Listing
}

func (o *op) writes() bool { return o.verb == "create" || o.verb == "replace" || o.verb == "delete" }

func (h handle) classOf(key string) class {
	switch {
	case strings.HasPrefix(key, wire.CellsPrefix):
		return classCell
	case strings.HasPrefix(key, wire.NodesPrefix) && h.own:
		return classOwn
	case strings.HasPrefix(key, wire.NodesPrefix):
		return classLease
	}
	return classOther
}

// do sends a request and waits for its answer, or for the end of ctx.
func (h handle) do(ctx context.Context, o *op) error {
	o.p, o.class = h.p, h.classOf(o.key)
	if err := ctx.Err(); err != nil {
		return bucket.NotApplied(err)
	}
	h.p.asked(o)
	h.p.w.store.send(o)
	h.p.park(func() bool { return o.done || ctx.Err() != nil })
	if !o.done {
		return fmt.Errorf("%s %s: %w", o.verb, o.key, ctx.Err())
	}
	return o.err
}

// Get implements bucket.Bucket.
func (h handle) Get(ctx context.Context, key string) (bucket.Object, error) {
	o := &op{verb: "get", key: key}
	if err := h.do(ctx, o); err != nil {
		return bucket.Object{}, err
	}
	return o.obj, nil
}

// Create implements bucket.Bucket.
func (h handle) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	o := &op{verb: "create", key: key, body: body}
	if err := h.do(ctx, o); err != nil {
		return bucket.Written{}, err
	}
	return o.written, nil
}

// Replace implements bucket.Bucket.
func (h handle) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	o := &op{verb: "replace", key: key, body: body, version: v}
	if err := h.do(ctx, o); err != nil {
		return bucket.Written{}, err
	}
	return o.written, nil
}

// Delete implements bucket.Bucket.
func (h handle) Delete(ctx context.Context, key string) error {
	return h.do(ctx, &op{verb: "delete", key: key})
}

// List implements bucket.Bucket.
func (h handle) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	o := &op{verb: "list", key: prefix, after: after, limit: limit}
	if err := h.do(ctx, o); err != nil {
		return bucket.Listing{}, err
	}
	return o.list, nil
}

// Traits implements bucket.Bucket.
func (h handle) Traits() bucket.Traits {
	t := bucket.Traits{BodyVersions: h.p.w.plan.bodyVersions}
	if h.p.w.plan.http {
		t.Rounding = time.Second
	}
	return t
}

// Fresh implements bucket.Bucket.
func (h handle) Fresh() {}

// Close implements bucket.Bucket.
func (h handle) Close() error { return nil }

// course is what becomes of a request.
type course struct {
	fails error // what the caller is told instead of an answer; nil: nothing
	hangs bool  // the caller is told nothing at all
	lands bool  // it reaches the store
	there int64 // how long it is under way
	gap   int64 // between the record and the stamp
	back  int64
}

// send starts a request on its course.
func (s *store) send(o *op) {
	s.asked[o.key]++
	r := o.p.rng
	c := course{lands: true, there: leg(r), gap: r.Int64N(2 * millisecond), back: leg(r)}
	if o.class == classOther { // fast enough for the start-up test, by whatever clock
		c = course{lands: true, there: millisecond, back: millisecond}
	}
	s.w.disturb(o, &c)
	if c.lands {
		s.w.in(c.there, func() { s.serve(o, c) })
	}
	if c.fails != nil && !c.hangs {
		s.w.in(leg(r), func() { o.answer(c.fails) })
	}
}

// answer lets the caller go on.
func (o *op) answer(err error) {
	if !o.done {
		o.done, o.err = true, err
		o.p.poke()
	}
}

// serve carries a request out, and answers it unless its course says otherwise.
func (s *store) serve(o *op, c course) {
	if o.class == classLease && o.verb == "get" {
		if f := s.w.aimed(o.key); f != nil {
			f.held = append(f.held, func() { s.carryOut(o, c, s.date()) })
			return
		}
	}
	date := s.date() // the stamp of a store that samples its clock before it reads
	if !s.w.plan.http && c.gap > 0 {
		s.w.in(c.gap, func() { s.carryOut(o, c, date) })
		return
	}
	s.carryOut(o, c, date)
}

// carryOut is the instant at which a request takes effect.
func (s *store) carryOut(o *op, c course, date time.Time) {
	err := s.apply(o)
	if c.fails != nil || c.hangs {
		return
	}
	reply := func() {
		if s.w.plan.http {
			date = s.date()
		}
		o.obj.Date = date
		o.written.Date = date
		s.w.in(c.back, func() { o.answer(err) })
	}
	if s.w.plan.http && c.gap > 0 {
		s.w.in(c.gap, reply)
		return
	}
	reply()
}

func (s *store) apply(o *op) (err error) {
	ctx := context.Background()
	switch o.verb {
	case "get":
		o.obj, err = s.mem.Get(ctx, o.key)
		if err == nil && s.w.plan.bodyVersions {
			o.obj.Version = bodyVersion(o.obj.Body)
		}
	case "list":
		o.list, err = s.mem.List(ctx, o.key, o.after, o.limit)
	case "delete":
		if o.class != classOther {
			s.w.violated("records", "%s deletes %s", o.p.name, o.key)
		}
		err = s.mem.Delete(ctx, o.key)
	default:
		err = s.write(o)
	}
	return err
}

// write applies a conditional write, and has it judged.
func (s *store) write(o *op) error {
	ctx := context.Background()
	old, err := s.mem.Get(ctx, o.key)
	if err != nil && !errors.Is(err, bucket.ErrNotExist) {
		return err
	}
	version := o.version
	if s.w.plan.bodyVersions && err == nil && o.verb == "replace" && version == bodyVersion(old.Body) {
		version = old.Version
	}
	if o.verb == "create" {
		o.written, err = s.mem.Create(ctx, o.key, o.body)
	} else {
		o.written, err = s.mem.Replace(ctx, o.key, o.body, version)
	}
	if err != nil {
		return err
	}
	if s.w.plan.bodyVersions {
		o.written.Version = bodyVersion(o.body)
	}
	s.w.logf("store: %s %s = %s", o.verb, o.key, o.body)
	s.w.judgeWrite(o, old)
	return nil
}

func bodyVersion(body []byte) bucket.Version {
	var d digest
	d.text(string(body))
	return bucket.Version(fmt.Sprintf("b%016x", d.sum))
}
