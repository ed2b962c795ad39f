package gateway

import (
	"context"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/core"
)

// passage is one request on its way through the gateway. It is the
// http.ResponseWriter that handlers write to (answer.go).
//
// Two goroutines meet in it: the one that serves the request, and the one that
// runs ended when the call's context ends. Whichever of them moves state away
// from waiting answers the client; from then on only the first one writes.
type passage struct {
	g        *Gateway
	call     Call
	in       *http.Request // as it arrived
	inner    http.ResponseWriter
	rc       http.ResponseController // of inner
	to       target
	deadline time.Time // when the core gives up; for the next hop
	ctx      scope

	// mu guards every change of state, and the writing of a refusal.
	mu    sync.Mutex
	state atomic.Int32
	// broken: the connection must not survive. Guarded by mu.
	broken bool
	// stop ends the watching of the call's context; nil while nobody does.
	stop func() bool

	// Where the request is now: run here at an epoch, or forwarded (zero).
	epoch core.Epoch
	node  core.NodeID
	names [3]string // cell, epoch and node as headers say them

	prepared bool // a handler in this process got a request of its own

	own    http.Header // the handler's header, exposed only by begin
	wrote  bool        // the final status went out; only the handler's goroutine
	upload upload
	conn   *hijacked // guarded by mu
	hop    hop
}

// States of an answer.
const (
	waiting int32 = iota // nothing went out
	begun                // the core let it out
	refused              // a problem document went out instead, or nothing at all
	aborted              // broken off after it had begun
	over                 // the handler has returned
)

// scope is the context of the requests that a passage hands out. It is the
// call's context, and leads back to the passage.
type scope struct {
	context.Context
	p *passage
}

type scopeKey struct{}

func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s.p
	}
	return s.Context.Value(key)
}

// passageOf returns nil for a request that did not come through a gateway.
func passageOf(ctx context.Context) *passage {
	p, _ := ctx.Value(scopeKey{}).(*passage)
	return p
}

func newPassage(g *Gateway, call Call, w http.ResponseWriter, r *http.Request, t target, deadline time.Time) *passage {
	p := &passage{g: g, call: call, in: r, inner: w, rc: *http.NewResponseController(w), to: t, deadline: deadline}
	p.ctx = scope{call.Context(), p}
	p.upload.init(r)
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		// Else net/http reads the rest of the body before it lets an answer
		// out. An error means that there is no such limit.
		_ = p.rc.EnableFullDuplex()
	}
	return p
}

// watch has ended called when the call's context ends.
func (p *passage) watch() {
	if p.stop == nil {
		p.stop = context.AfterFunc(p.call.Context(), p.ended)
	}
}

// dispatch runs the request here.
func (p *passage) dispatch(e core.Dispatch) {
	p.accept(e.Epoch)
	p.watch()
	h := p.g.Local(e.Cell, e.Epoch)
	if h == nil {
		p.fail(core.Failure{Code: core.CodeAppBroken, Detail: "the cell is not active here any more"})
		return
	}
	r := p.in.WithContext(&p.ctx)
	if _, ok := h.(*App); ok {
		r.Body = p.upload.open(nil) // the App prepares its own copy
	} else {
		p.prepare(r)
	}
	p.run(h, r)
}

// accept notes that the request runs here.
func (p *passage) accept(epoch core.Epoch) {
	p.mu.Lock() // an earlier attempt to forward may have begun to watch
	defer p.mu.Unlock()
	p.node, p.epoch = p.g.Decider.Self(), epoch
	p.names = [...]string{string(p.to.cell), strconv.FormatUint(uint64(epoch), 10), string(p.node)}
	if p.to.forwarded && !p.upload.empty() && !p.upload.small() && p.in.Header.Get("Expect") == "" {
		// The sender keeps the body until it knows that it is not refused. An
		// application that answers before it reads would wait for ever.
		p.inner.WriteHeader(http.StatusContinue)
	}
}

// prepare makes a request that a handler in this process may keep.
func (p *passage) prepare(r *http.Request) {
	p.prepared = true
	r.URL = new(url.URL)
	p.to.url(r.URL, p.in.URL)
	r.Header = p.in.Header.Clone()
	r.Trailer = p.trailer()
	r.Body = p.upload.open(r.Trailer)
	p.identify(r.Header)
	p.to.setForwarded(r.Header, p.in)
}

// identify replaces the client's Tenure headers by the owner's.
func (p *passage) identify(h http.Header) {
	strip(h, ours)
	h[headerCell] = p.names[0:1:1]
	h[headerEpoch] = p.names[1:2:2]
	h[headerNode] = p.names[2:3:3]
}

// trailer declares the request's trailers to the next hop; upload fills them
// in when the body has been read.
func (p *passage) trailer() http.Header {
	t := p.in.Trailer.Clone()
	strip(t, ours)
	return t
}

// declareTrailer has the request's trailers sent on with an outgoing request.
func (p *passage) declareTrailer(out *http.Request) {
	out.Trailer = nil
	if len(p.in.Trailer) > 0 {
		out.Trailer = p.trailer()
		p.upload.fill(out.Trailer)
	}
}

// run runs a handler to its end, or to that of the connection it hijacked.
func (p *passage) run(h http.Handler, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			p.panicked(v)
		}
	}()
	h.ServeHTTP(p, r)
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		<-conn.closed // the handler may have left it to somebody else
		return
	}
	if !p.wrote && p.hop.err == nil {
		p.WriteHeader(http.StatusOK)
	}
	p.exposeTrailers()
}

func (p *passage) panicked(v any) {
	if v != http.ErrAbortHandler {
		p.g.Log.Error("application panicked", "cell", p.to.cell, "epoch", p.epoch, "panic", v, "stack", string(debug.Stack()))
		p.fail(core.Failure{Code: core.CodeAppBroken, Ran: true, Detail: "the application panicked"})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = p.broken || p.state.Load() != refused
}

// fail answers with a failure of the application, if the core lets it out and
// no answer has begun.
func (p *passage) fail(f core.Failure) {
	if !p.begin() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrote || p.conn != nil {
		p.broken = true
		return
	}
	p.wrote = true
	p.writeFailure(f)
}

// refuse answers with a failure of the core, unless something was answered.
func (p *passage) refuse(f core.Failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuseLocked(f)
}

func (p *passage) refuseLocked(f core.Failure) {
	if !p.state.CompareAndSwap(waiting, refused) {
		return
	}
	if f.Code == "" { // the client has left
		p.broken = true
		return
	}
	p.writeFailure(f)
	// The handler may still be running, and may ignore its context.
	_ = p.rc.Flush()
}

// writeFailure writes a problem document. The body of the request is given up:
// its reader, and so net/http, must not wait for a client that does not send.
func (p *passage) writeFailure(f core.Failure) {
	if f.Node == "" && p.epoch != 0 {
		f.Node, f.Epoch = p.node, p.epoch
	}
	if p.upload.unread() {
		p.inner.Header().Set("Connection", "close")
		defer p.cutUpload()
	}
	if p.to.forwarded {
		writeRefusal(p.inner, p.to.cell, f)
		return
	}
	WriteFailure(p.inner, p.to.cell, f)
}

// ended is called when the call's context has ended: the core has failed or
// aborted the request, or the client has left.
func (p *passage) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.state.Load() {
	case waiting:
		f, ok := p.call.Ready(&p.ctx)
		if ok { // nothing is there to let out any more
			f = core.Failure{}
		}
		p.refuseLocked(f)
	case begun:
		p.state.Store(aborted)
		p.broken = true
		p.cut()
	}
}

// lingering is how long a client may still send what nobody reads: closing at
// once would reset the connection before the client has read its answer.
const lingering = 500 * time.Millisecond

func (p *passage) cutUpload() {
	_ = p.rc.SetReadDeadline(time.Now().Add(lingering))
}

// cut frees a handler that waits for the client.
func (p *passage) cut() {
	if p.conn != nil {
		p.conn.reset()
		return
	}
	past := time.Now()
	_ = p.rc.SetReadDeadline(past)
	_ = p.rc.SetWriteDeadline(past)
}

// end is the last thing that happens to a passage. It panics to break the
// connection where the client must be able to tell. Else it reports whether
// some of the body is left to be read: net/http never does if the client was
// promised a 100 Continue.
func (p *passage) end() (left bool) {
	if p.stop != nil {
		p.stop()
	}
	p.mu.Lock()
	// ended may not have got to it yet.
	broken := p.broken || p.state.Load() == begun && p.ctx.Err() != nil
	p.state.Store(over)
	if broken && p.conn != nil {
		p.conn.reset()
	}
	p.mu.Unlock()
	p.upload.close()
	if broken {
		panic(http.ErrAbortHandler)
	}
	return p.conn == nil && p.upload.unread() && p.in.Header.Get("Expect") == ""
}
