package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"

	"github.com/tenure-go/tenure/core"
)

// hop is one attempt to forward a request.
type hop struct {
	addr      string
	transport http.RoundTripper
	// err is set if the attempt brought no answer of the cell, and how says
	// what the core is to be told.
	err     error
	how     core.ForwardFailure
	refusal core.Failure
}

// hopProxy forwards. What differs between requests is in their passage.
var hopProxy = &httputil.ReverseProxy{
	Rewrite:        rewriteHop,
	Transport:      hopTransport{},
	FlushInterval:  flushAfter,
	BufferPool:     buffers{},
	ErrorLog:       silent,
	ModifyResponse: hopAnswered,
	ErrorHandler:   hopFailed,
}

// errRefused: the peer speaks for itself, not for the cell.
var errRefused = errors.New("the peer refused the request")

// forward sends the request to the cell's owner. It reports whether the request
// has an answer; if not, the core was told, and is to be asked again.
func (p *passage) forward(e core.Forward) bool {
	p.watch()
	if err := p.bufferUpload(); err != nil {
		p.refuse(core.Failure{Code: codeBadRequest, Detail: "the request's body: " + err.Error()})
		return true
	}
	p.hop = hop{addr: e.Contact.Addr, transport: p.g.Peers.Transport(e.Node, e.Contact)}
	if p.hop.transport == nil {
		p.hop.err, p.hop.how = errors.New("no way to reach the peer"), core.NotConnected
	} else {
		p.send()
	}
	if p.hop.err == nil {
		return true
	}
	if p.state.Load() != waiting { // after an informational answer, or too late
		p.fail(p.hop.failure(e.Node))
		return true
	}
	if err := p.upload.broken(); err != nil { // the client's fault: it says nothing about the peer
		p.refuse(core.Failure{Code: codeBadRequest, Ran: p.hop.how != core.NotConnected, Detail: "the request's body: " + err.Error()})
		return true
	}
	p.call.ForwardFailed(p.hop.how, p.hop.refusal)
	return p.giveUp(e.Node)
}

// failure is what to say of a hop that failed after the answer had begun.
func (h *hop) failure(node core.NodeID) core.Failure {
	if h.how == core.PeerRefused {
		return h.refusal
	}
	return core.Failure{Code: core.CodeOwnerLost, Ran: true, Detail: h.err.Error(), Node: node}
}

// bufferUpload keeps a small body, so that it can be sent again.
func (p *passage) bufferUpload() error {
	if p.upload.empty() || !p.upload.small() {
		return nil
	}
	return p.upload.buffer()
}

func (p *passage) send() {
	r := p.in.WithContext(&p.ctx)
	r.Body = p.upload.open(nil)
	p.run(hopProxy, r)
}

// giveUp answers a request that certainly was not run, but whose body is gone.
// Where it is open what happened, the core answers.
func (p *passage) giveUp(node core.NodeID) bool {
	open := p.hop.how == core.ForwardBroken || p.hop.refusal.Ran
	if open || !p.upload.spent() {
		return false
	}
	f := p.hop.refusal
	if f.Code == "" {
		f = core.Failure{
			Code:       core.CodeOwnerUnreachable,
			RetryAfter: core.Time(time.Second),
			Detail:     "the node asked did not run the request, and its body cannot be sent again",
			Node:       node,
		}
	}
	p.refuse(f)
	return true
}

func rewriteHop(pr *httputil.ProxyRequest) {
	p, out := passageOf(pr.In.Context()), pr.Out
	p.to.url(out.URL, p.in.URL)
	p.to.opaque(out.URL)
	out.URL.Scheme, out.URL.Host = "https", p.hop.addr
	out.Proto, out.ProtoMajor, out.ProtoMinor = "HTTP/1.1", 1, 1
	strip(out.Header, ours)
	p.to.setForwarded(out.Header, p.in)
	p.declareTrailer(out)
	out.Header[peerCell] = []string{string(p.to.cell)}
	out.Header[peerPrefix] = []string{p.to.prefix}
	out.Header[peerTimeout] = []string{p.remaining()}
	delete(out.Header, forwardedPrefix) // the owner derives it
}

// remaining is the time left until the answer must begin, in milliseconds.
func (p *passage) remaining() string {
	return strconv.FormatInt(max(1, time.Until(p.deadline).Milliseconds()), 10)
}

// hopTransport sends a request through the transport of its hop.
type hopTransport struct{}

func (hopTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	p := passageOf(req.Context())
	res, err := p.hop.transport.RoundTrip(req)
	if err == nil {
		res.Request = req // which leads back to the passage
	}
	return res, err
}

// hopAnswered tells the peer's own words from the cell's.
func hopAnswered(res *http.Response) error {
	code := core.Code(res.Header.Get(peerRefused))
	if code == "" {
		return nil
	}
	h := &passageOf(res.Request.Context()).hop
	h.how, h.refusal = core.PeerRefused, readRefusal(res, code)
	if code == core.CodeNotMine {
		h.how, h.refusal = core.NotMine, core.Failure{}
	}
	return errRefused
}

// hopFailed notes that a hop brought no answer of the cell.
func hopFailed(_ http.ResponseWriter, r *http.Request, err error) {
	p := passageOf(r.Context())
	p.hop.err = err
	if errors.Is(err, errRefused) {
		return
	}
	p.hop.how = core.ForwardBroken
	if p.g.Peers.NotConnected(err) {
		p.hop.how = core.NotConnected
	}
}

// maxRefusal bounds a peer's problem document.
const maxRefusal = 16 << 10

// writeRefusal writes a problem document to a peer.
func writeRefusal(w http.ResponseWriter, cell core.CellName, f core.Failure) {
	h := w.Header()
	h.Set(peerRefused, string(f.Code))
	h.Set(peerExecuted, problemOf(cell, f).Executed)
	WriteFailure(w, cell, f)
}

// readRefusal reads what writeRefusal wrote. The header has all that is needed
// to decide; an answer to HEAD has no more.
func readRefusal(res *http.Response, code core.Code) core.Failure {
	f := core.Failure{Code: code, Ran: res.Header.Get(peerExecuted) != "no"}
	if s, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
		f.RetryAfter = core.Time(time.Duration(s) * time.Second)
	}
	var doc Problem
	if json.NewDecoder(io.LimitReader(res.Body, maxRefusal)).Decode(&doc) == nil {
		f.Detail, f.Node, f.Epoch = doc.Detail, doc.Node, doc.Epoch
	}
	return f
}
