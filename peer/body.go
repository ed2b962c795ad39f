package peer

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

var errBodyRevoked = errors.New("the request body was given to another attempt")

// Body is a request body that can be offered to one attempt after another until
// the first of them reads from it. It is safe for concurrent use: an abandoned
// attempt that still runs somewhere cannot steal a byte.
type Body struct {
	rc io.ReadCloser

	mu      sync.Mutex
	holder  *bodyReader
	touched bool
	closed  bool // the holder is done with it
	settled bool // the holder's Close closes rc
}

// NewBody wraps a body, which stays the caller's to close.
func NewBody(rc io.ReadCloser) *Body {
	if rc == nil {
		rc = http.NoBody
	}
	return &Body{rc: rc}
}

// Open gives the body to a new attempt and cuts the earlier one off. It reports
// false, and cuts nothing off, if an earlier attempt has begun to read. Of an
// empty body it returns http.NoBody, always.
func (b *Body) Open() (io.ReadCloser, bool) {
	if b.rc == http.NoBody {
		return http.NoBody, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.touched {
		return nil, false
	}
	b.holder, b.closed = &bodyReader{body: b}, false
	return b.holder, true
}

// settle makes the current attempt the last: from now on its Close is rc's.
func (b *Body) settle() {
	b.mu.Lock()
	b.settled = true
	closed := b.closed
	b.mu.Unlock()
	if closed {
		b.rc.Close()
	}
}

// read reports whether r may read.
func (b *Body) read(r *bodyReader) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder != r {
		return false
	}
	b.touched = true
	return true
}

// close reports whether rc is to be closed for r.
func (b *Body) close(r *bodyReader) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder != r {
		return false
	}
	b.closed = true
	return b.settled
}

type bodyReader struct{ body *Body }

func (r *bodyReader) Read(p []byte) (int, error) {
	if !r.body.read(r) {
		return 0, errBodyRevoked
	}
	return r.body.rc.Read(p)
}

func (r *bodyReader) Close() error {
	if !r.body.close(r) {
		return nil
	}
	return r.body.rc.Close()
}
