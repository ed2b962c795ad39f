package trace

import (
	"fmt"
	"time"
)

// writer encodes and writes; it belongs to one goroutine.
type writer struct {
	files
	limit   int64  // of a file
	c       codec  // whole lines that are not written yet
	sum     uint32 // of the last of them
	segment int    // of the last header
	kept    int    // items that are written
	telling []*Cut // in the lines that are not
	said    []*Cut // in those that are
	snap    int64  // bytes of the segment's snapshot
	good    struct {
		sum     uint32
		segment int
	} // as of what is written
}

// writeBytes are written at once, or a little more.
const writeBytes = 256 << 10

// write is the goroutine that writes, until Close.
func (r *Recorder) write(w *writer) {
	defer close(r.written)
	defer w.close()
	for ending := false; !ending; {
		select {
		case <-r.wake:
		case <-r.urgent:
		}
		ending = r.pause(pace, r.full)
		err := r.flush(w)
		if err == nil {
			continue
		}
		r.o.Report(fmt.Errorf("trace: %w; another try in %s", err, retryAfter))
		ending = ending || r.pause(retryAfter, nil)
		r.mu.Lock()
		r.broken = false
		r.mu.Unlock()
	}
}

// pause is shorter at enough, and, then true, when the Recorder is closed.
func (r *Recorder) pause(d time.Duration, enough <-chan struct{}) (closed bool) {
	select {
	case <-r.urgent:
		return true
	case <-enough:
		return false
	case <-time.After(d):
		return false
	}
}

// flush writes what is queued.
func (r *Recorder) flush(w *writer) error {
	r.mu.Lock()
	q := r.queue
	r.queue, r.spare, r.marked = r.spare, queue{}, false
	r.mu.Unlock()
	err := w.all(q)
	for _, cut := range w.said {
		r.o.Report(fmt.Errorf("trace: in %s %s", r.o.Path, cut))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		// What was not written is given up. The next line follows the last one
		// that was.
		r.lost += decisions(q.items[w.kept:]) + decisions(r.queue.items)
		r.queue.empty()
		r.broken, r.cut, r.why, r.next = true, true, err.Error(), false
	} else if !r.marked && w.size >= max(w.limit+w.snap, 2*w.snap) {
		r.next = true
	}
	q.empty()
	r.spare = q
	return err
}

// all writes a queue. With an error, kept says how many of its items are written.
func (w *writer) all(q queue) error {
	w.kept, w.said, w.telling = 0, w.said[:0], w.telling[:0]
	w.c.out, w.sum, w.segment = w.c.out[:0], w.good.sum, w.good.segment
	for i, it := range q.items {
		if it.mark != nil && it.mark.rotate {
			if err := w.put(i); err != nil {
				return err
			}
			if err := w.rotate(); err != nil {
				return err
			}
		}
		if it.mark != nil {
			w.mark(it.mark)
		} else {
			mark := w.c.begin()
			w.c.writeDecision(it.now, it.event, q.effects[:it.effects])
			w.end(mark)
			q.effects = q.effects[it.effects:]
		}
		if len(w.c.out) >= writeBytes {
			if err := w.put(i + 1); err != nil {
				return err
			}
		}
	}
	return w.put(len(q.items))
}

func (w *writer) mark(m *mark) {
	if w.size == 0 && len(w.c.out) == 0 && m.header.Format != 0 {
		w.segment++
		w.snap = 0
		m.header.Segment, m.header.After = w.segment, sumText(w.sum)
		mark := w.c.begin()
		w.c.header(&m.header)
		w.end(mark)
	}
	if m.cut != nil && w.size+int64(len(w.c.out)) > 0 {
		mark := w.c.begin()
		w.c.cutFields(m.cut)
		w.end(mark)
		w.telling = append(w.telling, m.cut)
	}
	if m.snapshot != nil {
		mark := len(w.c.out)
		w.c.out = append(w.c.out, m.snapshot...)
		w.end(mark)
		w.snap += int64(len(m.snapshot))
	}
}

func (w *writer) end(mark int) { w.sum = w.c.endLine(mark, w.sum) }

// put writes the lines of the items before the i-th.
func (w *writer) put(i int) error {
	if len(w.c.out) > 0 {
		if w.f == nil {
			if err := w.rotate(); err != nil {
				return err
			}
		}
		if err := w.append(w.c.out); err != nil {
			return err
		}
	}
	w.said, w.telling = append(w.said, w.telling...), w.telling[:0]
	w.kept, w.good.sum, w.good.segment = i, w.sum, w.segment
	w.c.out = w.c.out[:0]
	return nil
}
