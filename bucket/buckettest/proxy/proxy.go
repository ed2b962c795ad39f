// Package proxy is an HTTP proxy that misbehaves, to stand between a store's
// client and a real store: it makes up answers, breaks connections before,
// during and after a request, delays, and counts what arrives.
//
//	p := proxy.Start(t, "http://127.0.0.1:9000")
//	p.Set(proxy.Rule{When: proxy.Writes, Do: proxy.ResetAfter()})
//	b := open(p.URL) // another store's client
//	...
//	p.Count(proxy.Writes) // how many were on the wire
package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy passes requests to its target, except where a rule says otherwise. Its
// methods may be called at any time.
type Proxy struct {
	// URL is where it listens, on loopback.
	URL string

	server  *httptest.Server
	pass    http.Handler
	mu      sync.Mutex
	rules   []Rule
	arrived []*http.Request // without their bodies
}

// Start runs a proxy until the test ends. Requests keep their Host header, which
// some stores' signatures cover, unless ToTarget is given.
func Start(t testing.TB, target string, options ...Option) *Proxy {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	var o settings
	for _, option := range options {
		option(&o)
	}
	p := &Proxy{pass: passTo(to, o.hostOfTarget)}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ConnContext = withUses
	p.server.Start()
	t.Cleanup(func() {
		p.CloseConnections() // those that hang
		p.server.Close()
	})
	p.URL = p.server.URL
	return p
}

// CloseConnections closes all connections with clients, whatever they carry.
func (p *Proxy) CloseConnections() { p.server.CloseClientConnections() }

// An Option changes how a proxy passes requests on.
type Option func(*settings)

type settings struct{ hostOfTarget bool }

// ToTarget sends the target's own name as the Host header.
func ToTarget(s *settings) { s.hostOfTarget = true }

func passTo(target *url.URL, ownHost bool) http.Handler {
	pool := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	return &httputil.ReverseProxy{
		Transport: pool,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			if r.Out.Host = r.In.Host; ownHost {
				r.Out.Host = target.Host
			}
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	uses(r).Add(1)
	p.mu.Lock()
	p.arrived = append(p.arrived, r)
	var do Fault
	for _, rule := range p.rules {
		if rule.When(r) {
			do = rule.Do
			break
		}
	}
	p.mu.Unlock()
	if do == nil {
		do = Pass()
	}
	do(w, r, p.pass)
}

// Set replaces the rules; with none, requests pass. The first rule that chooses a
// request decides.
func (p *Proxy) Set(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = rules
}

// Count is how many requests have arrived that the predicate chooses, whatever
// became of them.
func (p *Proxy) Count(when Predicate) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, r := range p.arrived {
		if when(r) {
			n++
		}
	}
	return n
}

// Reset starts to count again at 0.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrived = nil
}

// A Rule is a fault, and the requests that it is for.
type Rule struct {
	When Predicate
	Do   Fault
}

// A Predicate chooses requests. It must not read their bodies.
type Predicate func(*http.Request) bool

// Any chooses all.
func Any(*http.Request) bool { return true }

// Writes chooses what may change the store.
func Writes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// Reads chooses the others.
func Reads(r *http.Request) bool { return !Writes(r) }

// Path chooses requests whose target, as written, contains text.
func Path(text string) Predicate {
	return func(r *http.Request) bool { return strings.Contains(r.RequestURI, text) }
}

// And chooses what all of ps choose. A later one is asked only where the earlier
// ones agree, so put those that count last.
func And(ps ...Predicate) Predicate {
	return func(r *http.Request) bool {
		for _, p := range ps {
			if !p(r) {
				return false
			}
		}
		return true
	}
}

// First chooses the first n that it is asked about.
func First(n int64) Predicate {
	var asked atomic.Int64
	return func(*http.Request) bool { return asked.Add(1) <= n }
}

// Reused chooses requests that are not the first of their connection: after its
// end, some clients send them again by themselves.
func Reused(r *http.Request) bool { return uses(r).Load() > 1 }

// A Fault deals with a request. next passes it to the target.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Pass does nothing bad.
func Pass() Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }
}

// Answer makes up an answer; the request does not reach the target. headers are
// names and values in turn.
func Answer(status int, body string, headers ...string) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// ResetBefore ends the connection with a reset once the request is there; it does
// not reach the target.
func ResetBefore() Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		io.Copy(io.Discard, r.Body)
		hangUp(w, true)
	}
}

// ResetDuring does so in the middle of the request's body.
func ResetDuring() Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		io.CopyN(io.Discard, r.Body, max(r.ContentLength/2, 0))
		hangUp(w, true)
	}
}

// CloseBefore ends the connection in order, as servers end idle ones, at the
// moment when a request arrives on it.
func CloseBefore() Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		io.Copy(io.Discard, r.Body)
		hangUp(w, false)
	}
}

// ResetAfter lets the target answer, and resets the connection instead of passing
// the answer on.
func ResetAfter() Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		hangUp(w, true)
	}
}

// ApplyLate resets the connection, and passes the request to the target after d,
// though nobody waits for it any more.
func ApplyLate(d time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		late := copied(r)
		hangUp(w, true)
		time.AfterFunc(d, func() {
			defer func() { _ = recover() }() // the target may be gone by then
			next.ServeHTTP(httptest.NewRecorder(), late)
		})
	}
}

// Cut passes the answer's head on, half of its body, and then resets.
func Cut() Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		whole := answer.Result()
		conn, out, err := hijack(w)
		if err != nil {
			return
		}
		defer reset(conn)
		body := answer.Body.Bytes()
		whole.ContentLength = int64(len(body))
		whole.Body = io.NopCloser(io.MultiReader(strings.NewReader(string(body[:len(body)/2])), broken{}))
		_ = whole.Write(out) // it fails in the middle, as it should
		out.Flush()
	}
}

// broken ends a body before its time.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("cut") }

// Hang answers nothing until the client gives up or the test ends.
func Hang() Fault {
	return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
}

// Delay passes the request to the target after d, unless the client gives up.
func Delay(d time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		late := copied(r)
		select {
		case <-timer.C:
			next.ServeHTTP(w, late)
		case <-r.Context().Done():
		}
	}
}

// Edit lets the target answer, and changes that before it is passed on.
func Edit(edit func(header http.Header, body []byte) []byte) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		body := edit(answer.Header(), answer.Body.Bytes())
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.Code)
		w.Write(body)
	}
}

// copied is a request with its body in memory, that outlives its connection.
func copied(r *http.Request) *http.Request {
	body, _ := io.ReadAll(r.Body)
	late := r.Clone(contextWithout(r))
	late.Body = io.NopCloser(strings.NewReader(string(body)))
	return late
}

func hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w).Hijack()
}

func hangUp(w http.ResponseWriter, withReset bool) {
	conn, _, err := hijack(w)
	switch {
	case err != nil: // it is gone already
	case withReset:
		reset(conn)
	default:
		conn.Close()
	}
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // then a close is a reset
	}
	conn.Close()
}
