package trace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/core"
)

func open(t testing.TB, o Options) *Recorder {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "trace")
	}
	o.Name, o.Version = "n1", "test"
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(time.Minute) })
	return r
}

func closeIt(t testing.TB, r *Recorder) {
	t.Helper()
	if err := r.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// recorded is the trace of some steps of a session.
func recorded(t testing.TB, seed uint64, steps int, o Options) (path string) {
	t.Helper()
	r := open(t, o)
	newSession(t, seed, r.Record).run(steps)
	closeIt(t, r)
	return r.o.Path
}

func replay(t testing.TB, path string, prior *Replayed) *Replayed {
	t.Helper()
	p, err := replayFile(path, prior)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return p
}

func replayFile(path string, prior *Replayed) (*Replayed, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Replay(f, prior, nil)
}

// What was recorded is replayed with the same effects, whatever happened.
func TestRecordAndReplay(t *testing.T) {
	for seed := uint64(1); seed <= 12; seed++ {
		steps := 0
		r := open(t, Options{})
		x := newSession(t, seed, func(s *core.State, now core.Time, ev core.Event, effects []core.Effect) {
			steps++
			r.Record(s, now, ev, effects)
		})
		x.run(2000)
		closeIt(t, r)
		if !x.s.Held() {
			t.Errorf("seed %d: the session did not last", seed)
		}
		p := replay(t, r.o.Path, nil)
		if p.Difference != nil || p.Decisions != steps || p.Torn || len(p.Gaps) > 0 {
			t.Fatalf("seed %d: %d decisions of %d, %+v\n%v", seed, p.Decisions, steps, p.Result, p.Difference)
		}
		if p.Header.Name != "n1" || p.Header.Config != testConfig {
			t.Errorf("the header is %+v", p.Header)
		}
	}
}

// A file is followed by another, each of which can be replayed alone, and one after
// the other.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	synctest.Test(t, func(t *testing.T) { // its clock stands still, so no snapshot is put off
		r := open(t, Options{Path: path, FileBytes: 20000, Keep: 2})
		x := newSession(t, 7, r.Record)
		for range 80 {
			x.run(50)
			settle(t)
		}
		closeIt(t, r)
	})
	older := []string{path + ".2", path + ".1", path}
	var prior *Replayed
	for i, name := range older {
		alone := replay(t, name, nil)
		if alone.Difference != nil || alone.Decisions == 0 {
			t.Errorf("%s alone: %+v", name, alone.Result)
		}
		p := replay(t, name, prior)
		if i > 0 && !prior.continues(p.Header) {
			t.Errorf("%s does not continue the file before: %+v", name, p.Header)
		}
		if info, err := os.Stat(name); err != nil || info.Size() > 150000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		prior = p
	}
	if prior.Header.Segment < 4 {
		t.Errorf("the last of the files is only segment %d", prior.Header.Segment)
	}
	if _, err := os.Stat(path + ".3"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a third old file is there: %v", err)
	}
}

// A snapshot that is not the state before it is found.
func TestSnapshotIsCompared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	synctest.Test(t, func(t *testing.T) {
		r := open(t, Options{Path: path, FileBytes: 20000})
		x := newSession(t, 7, r.Record)
		for range 60 {
			x.run(50)
			settle(t)
		}
		closeIt(t, r)
	})
	prior := replay(t, path+".1", nil)
	prior.state.Step(1<<40, core.Tick{})
	if _, err := replayFile(path, prior); err == nil || !strings.Contains(err.Error(), "line 2: the snapshot is not the state") {
		t.Errorf("the error is %v", err)
	}
}

// A session that begins keeps the trace of the one before.
func TestRestartKeepsTheOldTrace(t *testing.T) {
	path := recorded(t, 1, 50, Options{})
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	recorded(t, 2, 50, Options{Path: path})
	kept, err := os.ReadFile(path + ".1")
	if err != nil || !bytes.Equal(kept, first) {
		t.Errorf("the old trace was not kept: %v", err)
	}
	if p := replay(t, path, replay(t, path+".1", nil)); p.Difference != nil || p.Decisions == 0 {
		t.Errorf("%+v", p.Result)
	}
}

// gated is a file on a disk that can be held up, or be full.
type gated struct {
	file
	disk *disk
}

type disk struct {
	sync.Mutex
	full bool
	torn int // bytes that are written all the same
}

func (d *disk) create(path string) (file, error) {
	f, err := create(path)
	return gated{f, d}, err
}

func (d *disk) set(full bool, torn int) {
	d.Lock()
	defer d.Unlock()
	d.full, d.torn = full, torn
}

var errFull = errors.New("no space left on device")

func (g gated) Write(p []byte) (int, error) {
	g.disk.Lock()
	defer g.disk.Unlock()
	if g.disk.full {
		n, _ := g.file.Write(p[:min(len(p), g.disk.torn)])
		return n, errFull
	}
	return g.file.Write(p)
}

// A disk that does not keep up does not hold up the node: the trace is cut, says
// so, and goes on from a snapshot.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d disk
		var said []string
		r := open(t, Options{Queue: 60, create: d.create, Report: func(err error) { said = append(said, err.Error()) }})
		total := 0
		x := newSession(t, 3, func(s *core.State, now core.Time, ev core.Event, effects []core.Effect) {
			total++
			r.Record(s, now, ev, effects)
		})
		x.run(200) // and nothing is written meanwhile: synctest's time stands still
		settle(t)
		x.run(20)
		settle(t)
		closeIt(t, r)

		p := replay(t, r.o.Path, nil)
		if p.Difference != nil || len(p.Gaps) != 1 {
			t.Fatalf("%+v", p.Result)
		}
		if gap := p.Gaps[0]; gap.Lost == 0 || int(gap.Lost)+p.Decisions != total || gap.Why != "the disk did not keep up" {
			t.Errorf("%d recorded and %+v of %d", p.Decisions, gap, total)
		}
		if len(said) != 1 || !strings.Contains(said[0], fmt.Sprint(p.Gaps[0].Lost, " decisions are missing: the disk did not keep up")) {
			t.Errorf("reported was %q", said)
		}
	})
}

// settle lets the writer, and the pause after a snapshot, come to their end.
func settle(t *testing.T) {
	t.Helper()
	<-time.After(time.Second)
	synctest.Wait()
}

// A disk that is full, also in the middle of a line, leaves whole lines, and the
// trace goes on when there is room.
func TestFullDisk(t *testing.T) {
	for _, torn := range []int{0, 10, 2000} {
		synctest.Test(t, func(t *testing.T) {
			var d disk
			r := open(t, Options{create: d.create, FileBytes: 30000})
			total := 0
			x := newSession(t, 5, func(s *core.State, now core.Time, ev core.Event, effects []core.Effect) {
				total++
				r.Record(s, now, ev, effects)
			})
			x.run(50)
			settle(t)
			d.set(true, torn)
			x.run(50)
			settle(t)
			x.run(50)
			d.set(false, 0)
			<-time.After(retryAfter)
			x.run(50)
			settle(t)
			x.run(50)
			settle(t)
			closeIt(t, r)
			p := replay(t, r.o.Path, nil)
			if p.Difference != nil || p.Torn || len(p.Gaps) != 1 {
				t.Fatalf("%+v", p.Result)
			}
			if gap := p.Gaps[0]; int(gap.Lost)+p.Decisions != total || !strings.Contains(gap.Why, errFull.Error()) {
				t.Errorf("%d recorded and %+v of %d", p.Decisions, gap, total)
			}
			if _, err := os.Stat(r.o.Path + ".1"); err == nil {
				t.Error("a good file was pushed out by one that could not be written")
			}
		})
	}
}

// What could not be written before the end is said by Close.
func TestCloseSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d disk
		r := open(t, Options{create: d.create})
		d.set(true, 3)
		newSession(t, 5, r.Record).run(50)
		err := r.Close(time.Minute)
		if err == nil || !strings.Contains(err.Error(), "decisions are missing") || !strings.Contains(err.Error(), errFull.Error()) {
			t.Errorf("the error is %v", err)
		}
		if data, err := os.ReadFile(r.o.Path); err != nil || len(data) != 0 {
			t.Errorf("the file holds %q, %v", data, err)
		}
	})
}

// A node with too many cells for a snapshot is not held up by one: its trace ends
// with its first file, and goes on when it has fewer.
func TestTooLargeForASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{FileBytes: 5000, snapshot: 3, Path: filepath.Join(t.TempDir(), "trace")}
		r := open(t, o)
		total := 0
		x := newSession(t, 17, func(s *core.State, now core.Time, ev core.Event, effects []core.Effect) {
			total++
			r.Record(s, now, ev, effects)
		})
		for range 30 {
			x.run(20)
			settle(t)
		}
		if size := r.size(x.s); size <= 3 {
			t.Fatalf("the session has only %d cells and requests", size)
		}
		if info, err := os.Stat(o.Path); err != nil || info.Size() > 15000 {
			t.Errorf("the file went on growing: %v, %v", info, err)
		}
		for _, id := range x.open { // and an end
			x.step(core.Done{ID: id})
		}
		x.step(core.Drain{})
		x.now += testConfig.DrainDeadline
		x.step(core.Tick{})
		settle(t)
		x.step(core.Tick{})
		settle(t)
		closeIt(t, r)
		p := replay(t, o.Path, nil)
		if p.Difference != nil || len(p.Gaps) == 0 || !strings.Contains(p.Gaps[0].Why, "more than 3 cells and requests would hold up the node") {
			t.Errorf("%+v", p.Result)
		}
	})
}

func TestOpenFails(t *testing.T) {
	if _, err := Open(Options{Path: filepath.Join(t.TempDir(), "no", "trace")}); err == nil || !strings.Contains(err.Error(), "trace: ") {
		t.Errorf("the error is %v", err)
	}
}

// benchState holds its lease for as long as a benchmark runs, and owns a cell.
func benchState(b *testing.B, record func(*core.State, core.Time, core.Event, []core.Effect)) *core.State {
	cfg := testConfig
	cfg.TTL, cfg.Renew, cfg.IdleAfter, cfg.MaxCells = 1<<60, 1<<59, 0, 0
	s, err := core.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	for i, ev := range []core.Event{
		core.Start{}, core.Minted{Op: 1, Node: "node-0123456789abcdef", Generation: "g", Contact: core.Contact{Addr: "a:1", Protocol: 1}},
		core.LeaseWritten{Op: 2, Outcome: core.Applied, Version: "l1"}, core.LeasesListed{Op: 3},
		core.Arrive{ID: 1, Cell: "room", Deadline: 30000}, core.OwnerRead{Op: 4, Cell: "room", Outcome: core.Absent},
		core.OwnerWritten{Op: 5, Cell: "room", Outcome: core.Applied, Version: "v1"}, core.Activated{Op: 6, Cell: "room", OK: true},
		core.Ready{ID: 1}, core.Done{ID: 1},
	} {
		record(s, core.Time(i+1), ev, s.Step(core.Time(i+1), ev))
	}
	return s
}

// BenchmarkWarmRequest is that of package core, with its three decisions recorded,
// or not. The three take turns, so that a busy machine slows all of them alike; the
// best turn of each counts. What the node waits for is Record; the writer goroutine
// has a core of its own, or takes what "encoded" says.
func BenchmarkWarmRequest(b *testing.B) {
	defer runtime.KeepAlive(make([]byte, 32<<20)) // as "tenure serve" does, so that it collects as rarely
	r := open(b, Options{})
	var c codec
	turns := []*warm{
		{name: "untraced-ns", record: func(*core.State, core.Time, core.Event, []core.Effect) {}},
		{name: "encoded-ns", record: func(s *core.State, now core.Time, ev core.Event, effects []core.Effect) {
			c.out = c.out[:0]
			c.begin()
			c.writeDecision(now, ev, effects)
			c.endLine(0, 0)
		}},
		{name: "traced-ns", record: r.Record},
	}
	for _, w := range turns {
		w.s, w.now, w.best = benchState(b, w.record), core.Time(24*time.Hour), time.Hour
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		turns[n%len(turns)].turn(b)
		n++
	}
	for _, w := range turns {
		b.ReportMetric(float64(w.best)/warmTurn, w.name)
	}
	b.ReportMetric(float64(turns[2].best)/float64(turns[0].best), "traced/untraced")
	b.ReportMetric(float64(r.lost), "lost")
}

const warmTurn = 500 // requests

// warm makes requests for a cell that is owned.
type warm struct {
	name   string
	record func(*core.State, core.Time, core.Event, []core.Effect)
	s      *core.State
	now    core.Time
	id     core.RequestID
	best   time.Duration
}

func (w *warm) turn(b *testing.B) {
	from := time.Now()
	for range warmTurn {
		w.now += 100_000
		w.id++
		for _, ev := range [3]core.Event{core.Arrive{ID: w.id, Cell: "room", Deadline: w.now + 30_000_000_000}, core.Ready{ID: w.id}, core.Done{ID: w.id}} {
			w.record(w.s, w.now, ev, w.s.Step(w.now, ev))
		}
	}
	w.best = min(w.best, time.Since(from))
	if w.s.Counts().Owned != 1 || w.s.Counts().Requests != 0 {
		b.Fatalf("not warm requests: %+v", w.s.Counts())
	}
}

// BenchmarkSnapshot is what the node waits for when a file is followed by another,
// with 100,000 idle cells.
func BenchmarkSnapshot(b *testing.B) {
	s := benchState(b, func(*core.State, core.Time, core.Event, []core.Effect) {})
	for i := range 100_000 {
		cell, id := core.CellName(fmt.Sprintf("tenant:room-%08d", i)), core.RequestID(i+10)
		now := core.Time(1000 + i)
		read := s.Step(now, core.Arrive{ID: id, Cell: cell, Deadline: now + 30000})[0].(core.ReadOwner)
		claim := s.Step(now, core.OwnerRead{Op: read.Op, Cell: cell, Outcome: core.Absent})[0].(core.WriteOwner)
		hook := s.Step(now, core.OwnerWritten{Op: claim.Op, Cell: cell, Outcome: core.Applied, Version: core.Version(fmt.Sprintf(`"%032x"`, i))})[0].(core.Activate)
		s.Step(now, core.Activated{Op: hook.Op, Cell: cell, OK: true})
		s.Step(now, core.Ready{ID: id})
		s.Step(now, core.Done{ID: id})
	}
	var r Recorder
	size := 0
	best := time.Hour
	for b.Loop() {
		from := time.Now()
		size = len(r.snapshot(s))
		best = min(best, time.Since(from))
	}
	b.ReportMetric(float64(size)/100_000, "B/cell")
	b.ReportMetric(float64(best)/100_000, "best-ns/cell")
}
