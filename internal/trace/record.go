package trace

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Options are what a Recorder is made with. Path is required; a zero value of the
// other fields is its default.
type Options struct {
	// Path is the file written; the ones before it are Path.1, the newest, to
	// Path.Keep.
	Path string
	// Name and Version go into the header: of the node, and of this program.
	Name, Version string
	// FileBytes is when a file is followed by another; default 64 MiB. One that
	// begins with a larger snapshot is as large again.
	FileBytes int64
	// Keep is how many files are kept beside the one written; default 3.
	Keep int
	// Queue bounds the decisions that wait to be written; default 65536, some 15
	// MiB.
	Queue int
	// Wall is for the headers; default time.Now.
	Wall func() time.Time
	// Report is told when decisions are missing, and why. It is called from a
	// goroutine of the Recorder.
	Report func(error)

	create   func(path string) (file, error) // for tests
	session  string
	snapshot int // the largest snapshot, in cells and requests
}

const (
	defaultFileBytes = 64 << 20
	defaultKeep      = 3
	defaultQueue     = 1 << 16
	// pace gathers what is recorded meanwhile into one write: to wake the writer
	// for each decision would cost more than the decision.
	pace = 10 * time.Millisecond
	// many decisions are written without more gathering.
	many = 4096
	// retryAfter is the pause after a write that failed.
	retryAfter = 10 * time.Second
	// snapshotShare bounds what snapshots take of the node's time: after one that
	// took d, there is none for snapshotShare*d.
	snapshotShare = 50
	// maxSnapshot is how many cells and requests a node may have for a snapshot of
	// it: at about a microsecond each, it could cost a node with the shortest lease
	// its authority otherwise.
	maxSnapshot = 200_000
)

// Recorder writes a trace. Record, for which the node waits, only notes the
// decision, whose parts nobody changes any more, and never blocks; a goroutine
// encodes and writes.
type Recorder struct {
	o       Options
	wake    chan struct{} // there is something to write
	full    chan struct{} // there is much
	urgent  chan struct{} // closed by Close
	written chan struct{} // closed when the writer has ended
	closing sync.Once

	mu      sync.Mutex
	queue   queue
	spare   queue
	started bool      // the first mark was queued
	next    bool      // the file is as large as it may be
	marked  bool      // the next file is queued
	calm    time.Time // no snapshot before this
	cut     bool      // decisions are missing after what is queued
	lost    int64     // how many
	why     string
	broken  bool // the last write failed: nothing is recorded for a while
	closed  bool
}

// queue is what waits to be written, in order.
type queue struct {
	items   []item
	effects []core.Effect // of all items
}

// item is a decision, or a mark.
type item struct {
	now     core.Time
	event   core.Event
	effects int // how many
	mark    *mark
}

// mark is what is between decisions: the beginning of a file, a cut, a snapshot.
type mark struct {
	rotate   bool // another file begins
	header   Header
	cut      *Cut
	snapshot []byte // the fields of its line; nil if there is none
}

func (q *queue) add(now core.Time, ev core.Event, effects []core.Effect) {
	q.items = append(q.items, item{now: now, event: ev, effects: len(effects)})
	q.effects = append(q.effects, effects...)
}

// empty forgets everything and keeps the memory.
func (q *queue) empty() {
	clear(q.items)
	clear(q.effects)
	q.items, q.effects = q.items[:0], q.effects[:0]
}

// decisions counts the decisions among items.
func decisions(items []item) (n int64) {
	for _, it := range items {
		if it.mark == nil {
			n++
		} else if it.mark.cut != nil {
			n += it.mark.cut.Lost
		}
	}
	return n
}

// Open creates the file; what is there already is kept as Path.1.
func Open(o Options) (*Recorder, error) {
	def(&o.FileBytes, defaultFileBytes)
	def(&o.Keep, defaultKeep)
	def(&o.Queue, defaultQueue)
	def(&o.session, rand.Text()[:12])
	def(&o.snapshot, maxSnapshot)
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.create == nil {
		o.create = create
	}
	w := &writer{files: files{path: o.Path, keep: o.Keep, create: o.create}, limit: o.FileBytes}
	if err := w.rotate(); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	r := &Recorder{
		o: o, wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
		urgent: make(chan struct{}), written: make(chan struct{}),
	}
	go r.write(w)
	return r, nil
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Record takes one step: the state after it, and the rest as Step was given and
// returned it. Steps come one at a time, from the session's first. No event, and
// nothing that an effect points to, may be changed later.
func (r *Recorder) Record(s *core.State, now core.Time, ev core.Event, effects []core.Effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
	case r.broken:
		r.lost++
	case len(r.queue.items) >= r.o.Queue:
		r.lost++
		r.cut, r.why = true, "the disk did not keep up"
	case r.cut:
		r.lost++ // the snapshot is of the state after it
		r.goOn(s, now)
	default:
		r.add(s, now, ev, effects)
	}
}

func (r *Recorder) add(s *core.State, now core.Time, ev core.Event, effects []core.Effect) {
	if !r.started {
		r.started = true
		r.mark(mark{header: r.header(s, now)})
	}
	r.queue.add(now, ev, effects)
	switch {
	case r.next && r.size(s) > r.o.snapshot:
		r.cut, r.why = true, fmt.Sprintf("the file is full, and a snapshot of more than %d cells and requests would hold up the node", r.o.snapshot)
	case r.next && r.isCalm():
		r.next, r.marked = false, true
		r.mark(mark{rotate: true, header: r.header(s, now), snapshot: r.snapshot(s)})
	}
	switch len(r.queue.items) {
	case 1, 2: // the first may be a mark
		signal(r.wake)
	case many:
		signal(r.full)
	}
}

// goOn says what is missing and goes on from a snapshot, once what was recorded
// before it is written.
func (r *Recorder) goOn(s *core.State, now core.Time) {
	if len(r.queue.items) > 0 || r.size(s) > r.o.snapshot || !r.isCalm() {
		return
	}
	rotate := r.next
	r.next, r.marked = false, rotate
	r.mark(mark{rotate: rotate, header: r.header(s, now), cut: r.missing(), snapshot: r.snapshot(s)})
	signal(r.wake)
}

func (r *Recorder) isCalm() bool { return !time.Now().Before(r.calm) }

func (r *Recorder) mark(m mark) { r.queue.items = append(r.queue.items, item{mark: &m}) }

// header is what the writer completes if it begins a file with it.
func (r *Recorder) header(s *core.State, now core.Time) Header {
	return Header{Format: Format, Version: r.o.Version, Session: r.o.session, Name: r.o.Name, Wall: r.o.Wall(), Now: now, Config: s.Config()}
}

// size is of a state, in cells and requests.
func (r *Recorder) size(s *core.State) int {
	n := s.Counts()
	return n.Owned + n.Leaving + n.Resolving + n.Routes + n.Requests
}

// snapshot is taken while the node waits, so there is none for a while after it.
func (r *Recorder) snapshot(s *core.State) []byte {
	from := time.Now()
	c := codec{out: make([]byte, 0, 4096+200*r.size(s))}
	c.begin()
	c.Group("snapshot", func() { s.Save(&c) })
	now := time.Now()
	r.calm = now.Add(snapshotShare * now.Sub(from))
	return c.out
}

func (r *Recorder) missing() *Cut {
	cut := &Cut{Lost: r.lost, Why: r.why}
	r.cut, r.lost, r.why = false, 0, ""
	return cut
}

// signal wakes who waits, unless it was done already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close writes what was recorded, waiting so long for the disk at the most. What
// is recorded after it is ignored.
func (r *Recorder) Close(wait time.Duration) error {
	r.mu.Lock()
	if !r.closed && r.cut && !r.broken {
		r.mark(mark{cut: r.missing()})
	}
	r.closed = true
	r.mu.Unlock()
	r.closing.Do(func() { close(r.urgent) })
	select {
	case <-r.written:
	case <-time.After(wait):
		return fmt.Errorf("trace: the disk did not take the end of %s within %s", r.o.Path, wait)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return fmt.Errorf("trace: the last %d decisions are missing in %s: %s", r.lost, r.o.Path, r.why)
	}
	return nil
}
