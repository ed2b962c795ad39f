package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// file is the part of os.File that writing needs.
type file interface {
	io.Writer
	io.Seeker
	io.Closer
	Truncate(size int64) error
}

func create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err // not a nil *os.File in a non-nil interface
	}
	return f, nil
}

// writer is the file, as far as it is written. It belongs to one goroutine.
type writer struct {
	o       Options
	f       file
	size    int64 // whole chunks
	sum     uint32
	segment int
}

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
	queue := r.queue
	r.queue, r.queued = nil, 0
	r.mu.Unlock()
	for i := range queue {
		c := &queue[i]
		if err := w.chunk(c); err != nil {
			r.failed(w, queue[i:], err)
			return err
		}
		if c.cut != nil {
			r.o.Report(fmt.Errorf("trace: in %s %s", r.o.Path, c.cut))
		}
		r.mu.Lock()
		if cap(c.out) <= 4*writeBytes && len(r.spare) < 2 {
			r.spare = append(r.spare, c.out[:0])
		}
		r.mu.Unlock()
	}
	return nil
}

// failed gives up what was not written. The next line follows the last one that
// was.
func (r *Recorder) failed(w *writer, queue []chunk, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range append(queue, r.queue...) {
		r.lost += c.lines
		if c.cut != nil {
			r.lost += c.cut.Lost
		}
	}
	r.queue, r.queued = nil, 0
	r.sum, r.segment, r.bytes, r.bare = w.sum, w.segment, w.size, w.size == 0
	r.broken, r.cut, r.why = true, true, err.Error()
}

// chunk appends whole lines, or nothing.
func (w *writer) chunk(c *chunk) error {
	if c.rotate || w.f == nil {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	n, err := w.f.Write(c.out)
	if err != nil {
		return errors.Join(err, w.takeBack(n))
	}
	w.size += int64(n)
	w.sum, w.segment = c.sum, c.segment
	return nil
}

// takeBack removes what was written in part. Should that fail, the file ends in a
// torn line, which a reader knows, and another is begun.
func (w *writer) takeBack(n int) error {
	if n == 0 {
		return nil
	}
	_, err := w.f.Seek(w.size, io.SeekStart)
	if err == nil {
		err = w.f.Truncate(w.size)
	}
	if err != nil {
		w.close()
	}
	return err
}

// rotate begins another file, and keeps the ones before it. An empty one is used
// again.
func (w *writer) rotate() error {
	w.close()
	if info, err := os.Stat(w.o.Path); err == nil && info.Size() > 0 {
		for i := w.o.Keep; i > 0; i-- {
			err := os.Rename(w.older(i-1), w.older(i))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	f, err := w.o.create(w.o.Path)
	if err != nil {
		return err
	}
	w.f, w.size = f, 0
	return nil
}

func (w *writer) close() {
	if w.f != nil {
		_ = w.f.Close() // what it wrote is in the hands of the system
		w.f, w.size = nil, 0
	}
}

// older is the name of the i-th file before the one written.
func (w *writer) older(i int) string {
	if i == 0 {
		return w.o.Path
	}
	return fmt.Sprintf("%s.%d", w.o.Path, i)
}
