package gateway

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The gate. passage implements everything that http.ResponseController looks
// for, and no Unwrap: there is no way around it.

// errClosed is what a handler gets whose answer was refused or broken off.
var errClosed = errors.New("gateway: the request was failed or broken off")

// begin asks for leave to answer, once. It reports whether the answer is out or
// may go out.
func (p *passage) begin() bool {
	if p.state.Load() == begun {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.state.Load() {
	case begun:
		return true
	case waiting:
	default:
		return false
	}
	if f, ok := p.call.Ready(&p.ctx); !ok {
		p.refuseLocked(f)
		return false
	}
	p.state.Store(begun)
	return true
}

// Header is the handler's own: the client sees what is in it when the answer
// begins.
func (p *passage) Header() http.Header {
	if p.own == nil {
		p.own = make(http.Header, 8)
	}
	return p.own
}

// WriteHeader begins the answer, also with an informational status. Only
// 100 Continue is none: net/http sends its own when the body is read.
func (p *passage) WriteHeader(code int) {
	if code == http.StatusContinue || !p.begin() {
		return
	}
	final := code >= 200 || code == http.StatusSwitchingProtocols
	if !p.wrote {
		p.expose(final)
	}
	p.inner.WriteHeader(code)
	if !final {
		p.conceal()
	}
	p.wrote = p.wrote || final
}

// Write lets the answer's body out.
func (p *passage) Write(b []byte) (int, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	return p.inner.Write(b)
}

// open makes sure that the header is out.
func (p *passage) open() error {
	if !p.wrote {
		p.WriteHeader(http.StatusOK)
	}
	if p.state.Load() != begun || p.ctx.Err() != nil {
		return errClosed
	}
	return nil
}

// Flush is FlushError for those who cannot handle an error.
func (p *passage) Flush() { _ = p.FlushError() }

// FlushError sends what was written.
func (p *passage) FlushError() error {
	if err := p.open(); err != nil {
		return err
	}
	return p.rc.Flush()
}

// SetReadDeadline passes on; see http.ResponseController.
func (p *passage) SetReadDeadline(t time.Time) error {
	if p.state.Load() > begun {
		return errClosed
	}
	return p.rc.SetReadDeadline(t)
}

// SetWriteDeadline passes on; see http.ResponseController.
func (p *passage) SetWriteDeadline(t time.Time) error {
	if p.state.Load() > begun {
		return errClosed
	}
	return p.rc.SetWriteDeadline(t)
}

// EnableFullDuplex passes on; it is enabled for requests with a body anyway.
func (p *passage) EnableFullDuplex() error {
	return p.rc.EnableFullDuplex()
}

// Hijack begins the answer and gives the connection away. The request lasts
// until the connection is closed, and the connection no longer than the
// request's context.
func (p *passage) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !p.begin() {
		return nil, nil, errClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Load() != begun {
		return nil, nil, errClosed
	}
	conn, rw, err := p.rc.Hijack()
	if err != nil {
		return nil, nil, err
	}
	p.conn = &hijacked{Conn: conn, early: rw.Reader, ctx: &p.ctx, closed: make(chan struct{})}
	if !p.wrote && p.epoch != 0 {
		p.stamp(p.Header()) // a handler that writes a head by itself may begin with these
	}
	return p.conn, rw, nil
}

// stamp says who owns the cell.
func (p *passage) stamp(h http.Header) {
	h[headerEpoch] = p.names[1:2:2]
	h[headerNode] = p.names[2:3:3]
}

// private is the prefix of the headers that the handler cannot set: a peer may
// speak for the owner, the application may not.
func (p *passage) private() string {
	if p.epoch == 0 {
		return oursPeer
	}
	return ours
}

// expose copies the handler's header to the client's.
func (p *passage) expose(final bool) {
	h, private := p.inner.Header(), p.private()
	for k, vv := range p.own {
		if !hasPrefix(strings.TrimPrefix(k, http.TrailerPrefix), private) {
			h[k] = vv
		}
	}
	stripTokens(h, "Connection", ours) // a hop on the way would obey it
	stripTokens(h, "Trailer", private)
	if final && p.epoch != 0 {
		p.stamp(h)
	}
}

// conceal takes back what an informational answer has exposed.
func (p *passage) conceal() {
	h := p.inner.Header()
	for k := range p.own {
		delete(h, k)
	}
}

// exposeTrailers copies the trailers, which are only known at the end.
func (p *passage) exposeTrailers() {
	if len(p.own) == 0 || p.state.Load() != begun {
		return
	}
	h, private := p.inner.Header(), p.private()
	for k, vv := range p.own {
		if name, ok := strings.CutPrefix(k, http.TrailerPrefix); ok && !hasPrefix(name, private) {
			h[k] = vv
		}
	}
	for name := range tokens(p.own["Trailer"]) {
		name = http.CanonicalHeaderKey(name)
		if vv, ok := p.own[name]; ok && !hasPrefix(name, private) {
			h[name] = vv
		}
	}
}

// hijacked is a connection that a handler took over. It has no CloseWrite: once
// the application has closed its side, or the owner is gone, nothing must wait
// for a client that keeps its own open.
type hijacked struct {
	net.Conn
	early  *bufio.Reader   // has what the client sent right behind its request
	ctx    context.Context // the request's
	once   sync.Once
	closed chan struct{}
}

// Read begins with what came early: httputil.ReverseProxy reads from here alone.
func (c *hijacked) Read(b []byte) (int, error) {
	if c.early.Buffered() > 0 {
		return c.early.Read(b)
	}
	return c.Conn.Read(b)
}

// Close ends the request, too. If that was broken off, so is the connection.
func (c *hijacked) Close() error {
	if c.ctx.Err() != nil {
		c.reset()
		return nil
	}
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// reset breaks the connection off, so that nobody takes it for an orderly end,
// if the connection can.
func (c *hijacked) reset() {
	raw := c.Conn
	if t, ok := raw.(interface{ NetConn() net.Conn }); ok {
		raw = t.NetConn()
	}
	if t, ok := raw.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0)
	}
	c.once.Do(func() { close(c.closed) })
	raw.Close()
}
