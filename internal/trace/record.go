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
	// QueueBytes bounds what waits to be written; default 8 MiB.
	QueueBytes int
	// Wall is for the headers; default time.Now.
	Wall func() time.Time
	// Report is told when the trace is cut, and when it goes on (nil). It is
	// called from a goroutine of the Recorder.
	Report func(error)

	create  func(path string) (file, error) // for tests
	session string
}

const (
	defaultFileBytes  = 64 << 20
	defaultKeep       = 3
	defaultQueueBytes = 8 << 20
	// pace gathers what is recorded meanwhile into one write: to wake the writer
	// for each decision would cost more than the decision.
	pace = 10 * time.Millisecond
	// writeBytes are written without more gathering.
	writeBytes = 256 << 10
	// retryAfter is the pause after a write that failed.
	retryAfter = 10 * time.Second
	// snapshotShare bounds what snapshots take of the node's time: after one that
	// took d, there is none for snapshotShare*d.
	snapshotShare = 50
)

// Recorder writes a trace. Record never blocks: it encodes into memory, and a
// goroutine writes.
type Recorder struct {
	o       Options
	wake    chan struct{} // there is something to write
	full    chan struct{} // there is much
	urgent  chan struct{} // closed by Close
	written chan struct{} // closed when the writer has ended
	closing sync.Once

	mu      sync.Mutex
	sum     uint32  // of the last line
	segment int     // of the last header; 0 before the first
	queue   []chunk // to be written, in order
	queued  int     // bytes of decisions in the queue
	bytes   int64   // of the segment, its snapshot apart
	snap    int64   // of its snapshot
	calm    time.Time
	cut     bool  // decisions are missing since the last line
	lost    int64 // how many
	why     string
	broken  bool // the last write failed: nothing is recorded for a while
	bare    bool // the file has no header
	closed  bool
	spare   [][]byte // of chunks that were written
}

// chunk is some whole lines, written at once.
type chunk struct {
	codec
	rotate  bool  // they begin another file
	lines   int64 // decisions among them
	sum     uint32
	segment int
	cut     *Cut // what is missing before them
}

// Open creates the file; what is there already is kept as Path.1.
func Open(o Options) (*Recorder, error) {
	def(&o.FileBytes, defaultFileBytes)
	def(&o.Keep, defaultKeep)
	def(&o.QueueBytes, defaultQueueBytes)
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.create == nil {
		o.create = create
	}
	def(&o.session, rand.Text()[:12])
	w := &writer{o: o}
	if err := w.rotate(); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	r := &Recorder{
		o: o, bare: true,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), urgent: make(chan struct{}), written: make(chan struct{}),
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
// returned it. Steps come one at a time, from the session's first.
func (r *Recorder) Record(s *core.State, now core.Time, ev core.Event, effects []core.Effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
	case r.broken:
		r.lost++
	case r.queued > r.o.QueueBytes:
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
	if r.bare {
		r.header(r.last(), s, now)
	}
	c := r.last()
	mark := c.begin()
	c.writeDecision(now, ev, effects)
	r.end(c, mark)
	c.lines++
	size := len(c.out) - mark
	r.queued += size
	r.bytes += int64(size)
	if r.bytes >= max(r.o.FileBytes, r.snap) && !time.Now().Before(r.calm) {
		r.queue = append(r.queue, chunk{rotate: true})
		c := r.last()
		r.header(c, s, now)
		r.snapshot(c, s)
	}
	r.signal()
}

// goOn says what is missing and goes on from a snapshot, once what was recorded
// before it is written.
func (r *Recorder) goOn(s *core.State, now core.Time) {
	if r.queued > 0 || time.Now().Before(r.calm) {
		return
	}
	c := r.last()
	if r.bare {
		r.header(c, s, now)
	}
	r.gap(c)
	r.snapshot(c, s)
	r.signal()
}

func (r *Recorder) header(c *chunk, s *core.State, now core.Time) {
	r.bare = false
	r.segment++
	r.bytes, r.snap = 0, 0
	mark := c.begin()
	c.header(&Header{
		Format: Format, Version: r.o.Version, Session: r.o.session, Segment: r.segment, After: sumText(r.sum),
		Name: r.o.Name, Wall: r.o.Wall(), Now: now, Config: s.Config(),
	})
	r.end(c, mark)
	c.segment = r.segment
}

// snapshot is taken while the node waits, so there is none for a while after it.
func (r *Recorder) snapshot(c *chunk, s *core.State) {
	from := time.Now()
	mark := c.begin()
	c.Group("snapshot", func() { s.Save(c) })
	r.end(c, mark)
	r.snap = int64(len(c.out) - mark)
	now := time.Now()
	r.calm = now.Add(snapshotShare * now.Sub(from))
}

func (r *Recorder) gap(c *chunk) {
	mark := c.begin()
	c.cut = &Cut{Lost: r.lost, Why: r.why}
	c.cutFields(c.cut)
	r.end(c, mark)
	r.cut, r.lost, r.why = false, 0, ""
}

func (r *Recorder) end(c *chunk, mark int) {
	r.sum = c.endLine(mark, r.sum)
	c.sum = r.sum
}

// last is the chunk to add to.
func (r *Recorder) last() *chunk {
	if len(r.queue) == 0 {
		c := chunk{segment: r.segment}
		if n := len(r.spare); n > 0 {
			c.out, r.spare = r.spare[n-1], r.spare[:n-1]
		}
		r.queue = append(r.queue, c)
	}
	return &r.queue[len(r.queue)-1]
}

// signal wakes the writer, unless it was already: that is cheap then.
func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
	if r.queued >= writeBytes {
		select {
		case r.full <- struct{}{}:
		default:
		}
	}
}

// Close writes what was recorded, waiting so long for the disk at the most. What
// is recorded after it is ignored.
func (r *Recorder) Close(wait time.Duration) error {
	r.mu.Lock()
	if !r.closed && r.cut && !r.broken && !r.bare {
		r.gap(r.last())
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
