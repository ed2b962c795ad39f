package peer

import (
	"context"
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"

	"github.com/tenure-go/tenure/core"
)

// ExpectAbove is the length in bytes above which a request body is sent only
// when the peer asks for it. A caller that wants to send a refused request again
// keeps bodies up to this length in memory, and larger ones in a [Body].
const ExpectAbove = 64 << 10

// link is the http.RoundTripper to one session.
type link struct {
	client *Client
	key    poolKey
}

// RoundTrip sends the request once. Only where an idle connection turns out to
// have ended before a byte was written does it take another.
func (l link) RoundTrip(req *http.Request) (*http.Response, error) {
	body := NewBody(req.Body)
	resp, err := l.send(req, body)
	if err != nil {
		body.rc.Close()
		return nil, err
	}
	body.settle()
	return resp, nil
}

func (l link) send(req *http.Request, body *Body) (*http.Response, error) {
	p, err := l.client.pool(l.key)
	if err != nil {
		return nil, l.fail(new(attempt), err)
	}
	// At most the idle connections can be stale; a new one ends the loop.
	for tries := 0; ; tries++ {
		rc, ok := body.Open()
		if !ok {
			return nil, l.fail(new(attempt), err)
		}
		a := &attempt{nonce: rand.Text()}
		resp, failed := p.try(a, l.client.o.Self(), req, rc)
		if err = failed; err == nil {
			return resp, nil
		}
		if !a.stale() || tries == idlePerPeer || req.Context().Err() != nil {
			return nil, l.fail(a, err)
		}
	}
}

func (l link) fail(a *attempt, err error) error {
	return &Error{
		Node: l.key.node, Addr: l.key.addr, Refusal: a.refusal, Err: err,
		begun: a.begun() && a.refusal == "",
	}
}

// try makes one attempt. The answer's body, once closed or read to its end,
// frees what the attempt holds.
func (p *pool) try(a *attempt, self core.NodeID, req *http.Request, body io.ReadCloser) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(untrace(req.Context()))
	a.cancel = cancel
	done := func() { cancel(nil); p.release() } // any number of times
	resp, err := p.transport.RoundTrip(p.outgoing(ctx, a, self, req, body))
	if err == nil {
		err = a.judge(resp)
	}
	if err != nil {
		done()
		return nil, err
	}
	resp.Request = req
	resp.Body = answerBody(resp.Body, done)
	return resp, nil
}

// outgoing is the request as it goes over the wire.
func (p *pool) outgoing(ctx context.Context, a *attempt, self core.NodeID, req *http.Request, body io.ReadCloser) *http.Request {
	h := make(http.Header, len(req.Header)+5) // the values are only read
	maps.Copy(h, req.Header)
	h[headerFrom] = []string{string(self)}
	h[headerTo] = []string{string(p.key.node)}
	h[headerNonce] = []string{a.nonce}
	delete(h, headerExpect)
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // net/http adds none of its own then
	}
	ours := h.Get("Expect") == ""
	if ours && offersBody(req) {
		h.Set("Expect", "100-continue")
		h.Set(headerExpect, "added")
	}
	// A shallow copy: the trailers are filled in as the caller's body ends.
	out := req.WithContext(httptrace.WithClientTrace(ctx, a.trace(req.Context(), ours)))
	out.Header, out.Body, out.GetBody = h, body, nil
	out.Proto, out.ProtoMajor, out.ProtoMinor = "HTTP/1.1", 1, 1
	if body != http.NoBody && out.ContentLength <= 0 {
		// net/http would read ahead to find out whether there is a body.
		out.ContentLength, out.TransferEncoding = -1, []string{"chunked"}
	}
	u := *req.URL
	u.Scheme, u.Host = "https", p.key.addr
	out.URL = &u
	if out.Host == "" {
		out.Host = req.URL.Host
	}
	return out
}

// offersBody reports whether the body is to be sent only when asked for.
func offersBody(req *http.Request) bool {
	if req.Body == nil || req.Body == http.NoBody {
		return false
	}
	return req.ContentLength <= 0 || req.ContentLength > ExpectAbove
}

// judge finds the refusal of the peer's door in an answer.
func (a *attempt) judge(resp *http.Response) error {
	why, err := refusalIn(resp, a.nonce)
	if err != nil {
		a.refusal = why
		resp.Body.Close()
	}
	return err
}

// trace is the caller's trace with what the attempt needs to know. An answer
// "100 Continue" is between the peers (ours) unless the caller asked for it.
func (a *attempt) trace(ctx context.Context, ours bool) *httptrace.ClientTrace {
	var t httptrace.ClientTrace
	if caller := httptrace.ContextClientTrace(ctx); caller != nil {
		t = *caller
	}
	gotConn, got1xx := t.GotConn, t.Got1xxResponse
	t.GotConn = func(info httptrace.GotConnInfo) {
		a.got(info)
		if gotConn != nil {
			gotConn(info)
		}
	}
	if ours {
		t.Got100Continue = nil
	}
	if ours && got1xx != nil {
		t.Got1xxResponse = func(code int, h textproto.MIMEHeader) error {
			if code == http.StatusContinue {
				return nil
			}
			return got1xx(code, h)
		}
	}
	return &t
}

// untraced hides the caller's trace, so that ours stands in for it; httptrace
// would call both.
type untraced struct{ context.Context }

func untrace(ctx context.Context) context.Context {
	if httptrace.ContextClientTrace(ctx) == nil {
		return ctx
	}
	return untraced{ctx}
}

func (u untraced) Value(key any) any {
	v := u.Context.Value(key)
	if _, ok := v.(*httptrace.ClientTrace); ok {
		return nil
	}
	return v
}

// answerBody calls done when the body has ended.
func answerBody(body io.ReadCloser, done func()) io.ReadCloser {
	if body == http.NoBody {
		done()
		return body
	}
	if rwc, ok := body.(io.ReadWriteCloser); ok {
		return &upgraded{rwc, done}
	}
	return &endingBody{body, done}
}

type endingBody struct {
	io.ReadCloser
	done func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

func (b *endingBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// upgraded is a connection that the caller owns after 101 Switching Protocols.
type upgraded struct {
	io.ReadWriteCloser
	done func()
}

func (u *upgraded) Close() error {
	defer u.done()
	return u.ReadWriteCloser.Close()
}

// CloseWrite tells the peer that nothing more will be written.
func (u *upgraded) CloseWrite() error {
	if half, ok := u.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}
