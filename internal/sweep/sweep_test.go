package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/mem"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

const (
	ttl = 10 * time.Second
	day = 24 * time.Hour
)

// world is a fleet's lease bucket, whose clock can leap.
type world struct {
	t     *testing.T
	store *mem.Store
	b     *mem.Bucket
	nodes int

	mu   sync.Mutex
	leap time.Duration
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.store = mem.NewStore(func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Now().Add(w.leap)
	})
	w.b = w.store.Open()
	fleet := wire.EncodeFleet(wire.Fleet{Version: wire.FleetVersion, ID: "f", LeaseTTL: core.Time(ttl)})
	if _, err := w.b.Create(t.Context(), wire.FleetKey, fleet); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) setLeap(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leap = d
}

func (w *world) newID() core.NodeID {
	w.nodes++
	return core.NodeID(fmt.Sprintf("n-%016x", w.nodes))
}

// lease writes the lease of a new node.
func (w *world) lease(change ...func(*wire.LeaseRecord)) core.NodeID {
	w.t.Helper()
	rec := wire.LeaseRecord{
		Lease:     core.Lease{Node: w.newID(), Generation: "g", Seq: 1, TTL: core.Time(ttl)},
		ExpiresMS: time.Now().Add(ttl).UnixMilli(),
	}
	for _, c := range change {
		c(&rec)
	}
	if _, err := w.b.Create(w.t.Context(), wire.LeaseKey(rec.Node), wire.EncodeLease(rec)); err != nil {
		w.t.Fatal(err)
	}
	return rec.Node
}

// renew writes the next lease of a node.
func (w *world) renew(id core.NodeID) {
	w.t.Helper()
	o, err := w.b.Get(w.t.Context(), wire.LeaseKey(id))
	if err != nil {
		w.t.Errorf("a live lease is gone: %v", err)
		return
	}
	rec, err := wire.DecodeLease(id, o.Body)
	if err != nil || rec.Released {
		w.t.Errorf("a live lease became %q", o.Body)
		return
	}
	rec.Seq++
	if _, err := w.b.Replace(w.t.Context(), wire.LeaseKey(id), wire.EncodeLease(rec), o.Version); err != nil {
		w.t.Error(err)
	}
}

func released(rec *wire.LeaseRecord) { rec.Released = true }

// sweeper is one of a node that lives, over b or a handle of its own.
func (w *world) sweeper(b bucket.Bucket) *Sweeper {
	if b == nil {
		b = w.store.Open()
	}
	id, from := w.lease(), time.Now()
	return &Sweeper{
		Leases: b, Node: func() core.NodeID { return id },
		Clock: func() core.Time { return core.Time(time.Since(from)) }, Wall: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

func (w *world) turn(s *Sweeper, want int) {
	w.t.Helper()
	if n, _, err := s.Turn(w.t.Context()); err != nil || n != want {
		w.t.Errorf("removed %d records, %v; want %d", n, err, want)
	}
}

// left are the nodes that have a record, tombstones marked.
func (w *world) left() map[core.NodeID]string {
	w.t.Helper()
	l, err := w.b.List(w.t.Context(), wire.NodesPrefix, "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[core.NodeID]string{}
	for _, key := range l.Keys {
		id, _ := wire.NodeOfKey(key)
		o, err := w.b.Get(w.t.Context(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		all[id] = "lease"
		if strings.Contains(string(o.Body), `"released":true`) {
			all[id] = "tombstone"
		}
	}
	return all
}

func (w *world) expect(want map[core.NodeID]string) {
	w.t.Helper()
	if got := w.left(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("left are %v, want %v", got, want)
	}
}

func TestWhatIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lease()
		w.lease(released)
		otherTTL := w.lease(func(r *wire.LeaseRecord) { r.TTL = core.Time(time.Hour) })
		strange := w.newID()
		w.b.Create(t.Context(), wire.LeaseKey(strange), []byte("x"))
		w.b.Create(t.Context(), "nodes/notes.txt", []byte("x"))
		<-time.After(29 * day)
		younger, yesterday := w.lease(), w.lease(released)
		<-time.After(day - time.Hour)
		today := w.lease(released)
		<-time.After(time.Hour)
		s := w.sweeper(nil)
		from := time.Now()
		w.turn(s, 3) // an expired one and two tombstones
		if took := time.Since(from); took < ttl+ttl/20 {
			t.Errorf("an expired lease was removed after it was watched for %v", took)
		}
		w.expect(map[core.NodeID]string{
			otherTTL: "lease", strange: "lease", younger: "lease", today: "tombstone", s.Node(): "lease",
			"": "lease", // notes.txt
		})
		if _, ok := w.left()[yesterday]; ok {
			t.Error("yesterday's tombstone is still there")
		}
		if o, err := w.b.Get(t.Context(), wire.LeaseKey(strange)); err != nil || string(o.Body) != "x" {
			t.Errorf("what is no lease is now %q, %v", o.Body, err)
		}
	})
}

// The store's clock leaps by 40 days, and every live lease looks old: not one is
// touched.
func TestAStoreClockThatLeaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		live := []core.NodeID{w.lease(), w.lease(), w.lease()}
		s := w.sweeper(nil)
		stop := make(chan struct{})
		var work sync.WaitGroup
		work.Go(func() {
			for {
				select {
				case <-time.After(ttl / 3):
				case <-stop:
					return
				}
				for _, id := range live {
					w.renew(id)
				}
			}
		})
		for i := range 10 {
			<-time.After(time.Duration(i) * time.Second)
			w.setLeap(time.Duration(i+1) * 40 * day)
			w.turn(s, 0)
		}
		close(stop)
		work.Wait()
		if got := w.left(); len(got) != 4 {
			t.Errorf("left are %v", got)
		}
	})
}

// A lease that is renewed after the last look, just before the tombstone is
// written, stays: the condition fails.
func TestRenewedBeforeTheTombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		late, dead := w.lease(), w.lease()
		<-time.After(31 * day)
		key := wire.LeaseKey(late)
		faulty := buckettest.Inject(w.store.Open(), buckettest.Rule{
			When: buckettest.And(buckettest.Is(buckettest.Replace), buckettest.Key(key), buckettest.First(1)),
			Do: func(ctx context.Context, _ buckettest.Call, do func(context.Context) error) error {
				w.renew(late)
				return do(ctx)
			},
		})
		s := w.sweeper(faulty)
		w.turn(s, 1)
		w.expect(map[core.NodeID]string{late: "lease", s.Node(): "lease"})
		w.renew(late) // it is as it was
		if _, ok := w.left()[dead]; ok {
			t.Error("the dead one stays")
		}
	})
}

// Likewise between the two looks.
func TestRenewedBetweenTheLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		late := w.lease()
		<-time.After(31 * day)
		count := buckettest.Count(w.store.Open())
		s := w.sweeper(count)
		time.AfterFunc(ttl/2, func() { w.renew(late) })
		w.turn(s, 0)
		if n := count.N(buckettest.Replace, "nodes"); n != 0 {
			t.Errorf("%d tombstones were tried", n)
		}
		w.expect(map[core.NodeID]string{late: "lease", s.Node(): "lease"})
	})
}

// A tombstone whose fate is not known, and a delete that lands a week late, harm
// nobody; a later turn finishes what was begun.
func TestWritesThatLandLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lease()
		<-time.After(31 * day)
		faulty := buckettest.Inject(w.store.Open(), buckettest.Rule{
			When: buckettest.And(buckettest.Is(buckettest.Replace), buckettest.Key("nodes/"), buckettest.First(1)),
			Do:   buckettest.LoseAnswer(nil),
		})
		s := w.sweeper(faulty)
		if n, more, err := s.Turn(t.Context()); n != 0 || !more || !errors.Is(err, buckettest.ErrInjected) {
			t.Errorf("the answer was lost: %d, %v, %v", n, more, err)
		}
		release, applied := make(chan struct{}), make(chan error)
		faulty.Set(buckettest.Rule{When: buckettest.Is(buckettest.Delete), Do: buckettest.ApplyLate(release, applied)})
		<-time.After(day + time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, more, err := s.Turn(ctx); !more || err == nil {
			t.Errorf("the delete hangs: %v, %v", more, err)
		}
		faulty.Set()
		<-time.After(2 * time.Hour)
		w.turn(s, 1)
		again := w.lease()
		<-time.After(7 * day)
		close(release)
		if err := <-applied; err != nil {
			t.Error(err)
		}
		w.expect(map[core.NodeID]string{s.Node(): "lease", again: "lease"})
	})
}

// Many nodes that start at once remove each record once, a thousand an hour, and
// cost a read a day when there is nothing to do.
func TestOneNodeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 2500 {
			w.lease()
		}
		<-time.After(31 * day)
		count := buckettest.Count(w.store.Open())
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for range 20 {
			s := w.sweeper(count)
			work.Go(func() { s.Run(ctx) })
		}
		deleted := func() int { return count.N(buckettest.Delete, "nodes") }
		for hour, want := range []int{1000, 2000, 2500} {
			<-time.After(50 * time.Minute)
			if n := deleted(); n != want {
				t.Errorf("%d were removed after hour %d, want %d", n, hour, want)
			}
			<-time.After(15 * time.Minute)
		}
		if n := count.N(buckettest.Replace, "nodes"); n != 2500 {
			t.Errorf("%d tombstones were written", n)
		}
		<-time.After(day)
		count.Reset()
		<-time.After(10 * day)
		cancel()
		work.Wait()
		// A read a day and node, and each day one of them looks at all.
		reads, turns := count.N(buckettest.Get, "fleet"), count.N(buckettest.Replace, "fleet")
		if reads > 220 || turns > 22 || count.N(buckettest.Get, "nodes") > 11*20 || deleted() != 0 || count.N(buckettest.List, "nodes") > 11 {
			t.Errorf("ten days of 20 nodes cost %v", count.Counts())
		}
		if got := w.left(); len(got) != 20 {
			t.Errorf("%d records are left", len(got))
		}
	})
}

// blind is a store whose stamps come from another boot each time.
type blind struct{ bucket.Bucket }

func (b blind) Get(ctx context.Context, key string) (bucket.Object, error) {
	o, err := b.Bucket.Get(ctx, key)
	o.Modified = time.Time{}
	return o, err
}

// Where the store has no age, 30 days by the wall clocks, and seen unchanged.
func TestStampsOfAnotherBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lease()
		<-time.After(29 * day)
		younger, wrongClock := w.lease(), w.lease(func(r *wire.LeaseRecord) { r.ExpiresMS = 0 })
		<-time.After(2 * day)
		s := w.sweeper(blind{w.store.Open()})
		go func() {
			for range 10 {
				<-time.After(ttl / 3)
				w.renew(wrongClock)
			}
		}()
		w.turn(s, 1)
		w.expect(map[core.NodeID]string{younger: "lease", wrongClock: "lease", s.Node(): "lease"})
		<-time.After(time.Minute)
	})
}
