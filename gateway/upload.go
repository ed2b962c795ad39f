package gateway

import (
	"bytes"
	"io"
	"net/http"
	"sync"
)

// maxReplay is the largest body that is kept so that it can be sent again.
const maxReplay = 64 << 10

// upload is a request's body. It is handed to one attempt after another, until
// one of them has begun to read it; unless it was buffered first.
type upload struct {
	in *http.Request

	mu      sync.Mutex
	buf     []byte // the whole body, if buffered
	touched bool   // something was read, and is gone
	eof     bool
	err     error // why the client's body could not be read
	current *attempt
	first   attempt // most requests need one
}

// attempt is the body of one attempt. After Close it reads nothing more, also
// if a Read is under way, and the client's body stays open.
type attempt struct {
	u       *upload
	trailer http.Header // filled in at the end of the body
	buf     *bytes.Reader
	closed  bool // guarded by u.mu
}

func (u *upload) init(in *http.Request) { u.in = in }

// empty reports whether there is no body.
func (u *upload) empty() bool {
	return u.in.Body == nil || u.in.Body == http.NoBody || u.in.ContentLength == 0
}

// small reports whether the body is worth buffering.
func (u *upload) small() bool {
	return u.in.ContentLength > 0 && u.in.ContentLength <= maxReplay
}

// buffer reads the body, so that it can be sent more than once.
func (u *upload) buffer() error {
	if u.buf != nil {
		return nil
	}
	buf := make([]byte, u.in.ContentLength)
	_, err := io.ReadFull(u.in.Body, buf)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.buf, u.eof, u.err = buf, err == nil, err
	return err
}

// open begins an attempt and ends the one before it.
func (u *upload) open(trailer http.Header) io.ReadCloser {
	if u.empty() {
		return http.NoBody
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	a := &u.first
	if u.current != nil {
		u.current.closed = true
		a = new(attempt)
	}
	*a = attempt{u: u, trailer: trailer}
	if u.buf != nil {
		a.buf = bytes.NewReader(u.buf)
	}
	u.current = a
	return a
}

// fill names the trailers that the current attempt sends.
func (u *upload) fill(trailer http.Header) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current != nil {
		u.current.trailer = trailer
	}
}

// reopen begins another attempt like the last one. It reports false if the
// body is gone.
func (u *upload) reopen() (io.ReadCloser, bool) {
	u.mu.Lock()
	last, gone := u.current, u.touched && u.buf == nil
	u.mu.Unlock()
	if gone {
		return nil, false
	}
	if last == nil {
		return http.NoBody, true
	}
	return u.open(last.trailer), true
}

// close ends the last attempt.
func (u *upload) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current != nil {
		u.current.closed = true
	}
}

// spent reports whether the body cannot be sent any more. It ends the last
// attempt, so that the answer stays true.
func (u *upload) spent() bool {
	u.close()
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.touched && u.buf == nil
}

// unread reports whether there may be more of the body to read.
func (u *upload) unread() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.eof && !u.empty()
}

// broken is why the client's body could not be read, or nil.
func (u *upload) broken() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

func (a *attempt) Read(b []byte) (int, error) {
	u := a.u
	u.mu.Lock()
	if a.closed {
		u.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	if a.buf != nil {
		defer u.mu.Unlock()
		return a.buf.Read(b)
	}
	u.touched = true
	u.mu.Unlock()
	n, err := u.in.Body.Read(b)
	return a.read(n, err)
}

// read notes how a Read of the client's body went.
func (a *attempt) read(n int, err error) (int, error) {
	u := a.u
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err == io.EOF:
		u.eof = true
		a.fillTrailer()
	case err != nil:
		u.err = err
	}
	if a.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return n, err
}

// fillTrailer passes on the trailers that were declared.
func (a *attempt) fillTrailer() {
	for k := range a.trailer {
		a.trailer[k] = a.u.in.Trailer[k]
	}
}

func (a *attempt) Close() error {
	a.u.mu.Lock()
	defer a.u.mu.Unlock()
	a.closed = true
	return nil
}
