package peer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
)

// scripted is a peer whose every byte is the test's: it counts the connections
// and the requests that it saw, whatever it does with them.
type scripted struct {
	contact  core.Contact
	conns    atomic.Int32
	requests atomic.Int32
}

// serves runs the script for each request; it returns whether to go on with the
// connection.
func serves(t testing.TB, script func(n int, c *tls.Conn, r *http.Request) bool) *scripted {
	t.Helper()
	id := newIdentity(t)
	l := listen(t)
	t.Cleanup(func() { l.Close() })
	s := &scripted{contact: core.Contact{Addr: l.Addr().String(), Key: id.Key(), Protocol: Protocol}}
	go func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			go s.converse(tls.Server(raw, id.serverTLS()), script)
		}
	}()
	return s
}

func (s *scripted) converse(c *tls.Conn, script func(int, *tls.Conn, *http.Request) bool) {
	defer c.Close()
	s.conns.Add(1)
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		n := s.requests.Add(1)
		if !script(int(n), c, r) {
			return
		}
	}
}

func answer(c *tls.Conn) bool {
	_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	return err == nil
}

// breaks answers the first request, and ends the connection on the second
// without a word.
func breaks(reset bool) func(int, *tls.Conn, *http.Request) bool {
	return func(n int, c *tls.Conn, r *http.Request) bool {
		if n != 2 {
			return answer(c)
		}
		if reset {
			c.NetConn().(*net.TCPConn).SetLinger(0)
			c.NetConn().Close()
		}
		return false
	}
}

func caller(t testing.TB, adjust ...func(*ClientOptions)) *Client {
	t.Helper()
	o := ClientOptions{Identity: newIdentity(t), Self: func() core.NodeID { return "caller-1" }}
	for _, a := range adjust {
		a(&o)
	}
	c := NewClient(o)
	t.Cleanup(c.Close)
	return c
}

// What net/http would send again: idempotent methods, and any with a key.
var replayable = map[string]func(testing.TB) *http.Request{
	"GET":     func(t testing.TB) *http.Request { return request(t, "GET", nil) },
	"HEAD":    func(t testing.TB) *http.Request { return request(t, "HEAD", nil) },
	"OPTIONS": func(t testing.TB) *http.Request { return request(t, "OPTIONS", nil) },
	"TRACE":   func(t testing.TB) *http.Request { return request(t, "TRACE", nil) },
	"keyed POST": func(t testing.TB) *http.Request {
		r := request(t, "POST", nil)
		r.Header.Set("Idempotency-Key", "k")
		return r
	},
	"keyed POST with a body": func(t testing.TB) *http.Request {
		r := request(t, "POST", strings.NewReader("body")) // has GetBody
		r.Header.Set("X-Idempotency-Key", "k")
		return r
	},
}

func TestARequestIsNeverSentTwice(t *testing.T) {
	for name, make := range replayable {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/reset=%v", name, reset), func(t *testing.T) {
				s := serves(t, breaks(reset))
				via := caller(t).Transport("peer-1", s.contact)
				send(t, via, request(t, "GET", nil))
				fails(t, via, make(t), false)
				if s.requests.Load() != 2 || s.conns.Load() != 1 {
					t.Errorf("the peer saw %d requests on %d connections, want 2 on 1", s.requests.Load(), s.conns.Load())
				}
				send(t, via, request(t, "GET", nil)) // the next request gets a new connection
			})
		}
	}
}

// The test above is worth something only if net/http by itself fails it.
func TestNetHTTPSendsTwice(t *testing.T) {
	s := serves(t, breaks(false))
	via := &http.Transport{TLSClientConfig: strangerTLS(newIdentity(t))}
	defer via.CloseIdleConnections()
	for range 2 {
		r := request(t, "GET", nil)
		r.URL.Scheme, r.URL.Host = "https", s.contact.Addr
		send(t, via, r)
	}
	if s.requests.Load() != 3 {
		t.Errorf("the peer saw %d requests: does net/http not replay any more?", s.requests.Load())
	}
}

// Connections that end at every possible moment around the next request.
func TestNoReplayUnderRacingCloses(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[string]int)
	s := serves(t, func(n int, c *tls.Conn, r *http.Request) bool {
		mu.Lock()
		seen[r.Header.Get("Id")]++
		mu.Unlock()
		ok := answer(c)
		for range rand.IntN(2000) { // let the next request come nearer
		}
		return ok && n%3 != 0
	})
	via := caller(t).Transport("peer-1", s.contact)
	answered := make(map[string]bool)
	unsent := make(map[string]bool)
	for i := range 600 {
		id := fmt.Sprint(i)
		r := request(t, "GET", nil)
		r.Header.Set("Id", id)
		resp, err := via.RoundTrip(r)
		if err != nil {
			unsent[id] = NotConnected(err)
			continue
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		answered[id] = true
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range seen {
		if n > 1 || unsent[id] {
			t.Errorf("request %s was seen %d times; said to be unsent: %v", id, n, unsent[id])
		}
	}
	if len(answered) < 300 {
		t.Errorf("only %d of 600 were answered", len(answered))
	}
}

// The moments that decide whether a request may go elsewhere, one by one.
func TestBegunOrNotAtAll(t *testing.T) {
	var cause error
	a := &attempt{cancel: func(err error) { cause = err }}
	ended, carries, other := new(conn), new(conn), new(conn)

	ended.observe(0, io.EOF)
	ended.assign(a)
	if _, err := ended.begin(); !errors.Is(err, errStale) || a.begun() {
		t.Errorf("on a connection that had ended: %v, begun %v", err, a.begun())
	}
	carries.assign(a)
	if first, err := carries.begin(); first != a || err != nil || !a.begun() {
		t.Errorf("on a good connection: %v, %v", first, err)
	}
	other.assign(a)
	if _, err := other.begin(); !errors.Is(err, errNoTwice) {
		t.Errorf("on a second connection: %v", err)
	}
	other.observe(0, io.EOF)
	if cause != nil {
		t.Error("the end of another connection ended the attempt")
	}
	carries.observe(0, io.ErrUnexpectedEOF)
	if cause != io.ErrUnexpectedEOF {
		t.Errorf("the attempt was cancelled with %v", cause)
	}
	if first, err := carries.begin(); first != nil || err != nil {
		t.Errorf("the other half of the connection: %v, %v", first, err)
	}
	answered := new(conn)
	b := &attempt{cancel: func(error) { t.Error("an attempt was cancelled under its answer") }}
	answered.assign(b)
	answered.begin()
	answered.observe(1, nil)
	answered.observe(0, io.EOF)
}

// faulty is a TCP connection whose writes fail on demand, while its reads have
// not noticed anything yet.
type faulty struct {
	net.Conn
	broken *atomic.Bool
	let    int // bytes of the failing write that still leave
}

func (f *faulty) Write(p []byte) (int, error) {
	if !f.broken.Load() {
		return f.Conn.Write(p)
	}
	n, _ := f.Conn.Write(p[:min(f.let, len(p))])
	return n, syscall.EPIPE
}

// dialsFaulty makes the first connection faulty.
func dialsFaulty(broken *atomic.Bool, let int) func(*ClientOptions) {
	var dials atomic.Int32
	return func(o *ClientOptions) {
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil && dials.Add(1) == 1 {
				c = &faulty{Conn: c, broken: broken, let: let}
			}
			return c, err
		}
	}
}

func TestAStaleConnectionIsReplaced(t *testing.T) {
	for _, body := range []string{"", "body", strings.Repeat("long", ExpectAbove)} {
		var got atomic.Value
		s := serves(t, func(n int, c *tls.Conn, r *http.Request) bool {
			if r.Header.Get("Expect") != "" {
				io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			b, _ := io.ReadAll(r.Body)
			got.Store(string(b))
			return answer(c)
		})
		var broken atomic.Bool
		via := caller(t, dialsFaulty(&broken, 0)).Transport("peer-1", s.contact)
		send(t, via, request(t, "GET", nil))
		broken.Store(true)
		r := request(t, "POST", io.NopCloser(strings.NewReader(body))) // cannot be rewound
		r.ContentLength = int64(len(body))
		if body == "" {
			r.Body = http.NoBody
		}
		send(t, via, r)
		if got.Load() != body || s.requests.Load() != 2 || s.conns.Load() != 2 {
			t.Errorf("the peer saw %d requests on %d connections", s.requests.Load(), s.conns.Load())
		}
	}
}

// A part of a TLS record is a byte on the wire, though crypto/tls reports none.
func TestAPartlyWrittenRecordIsBroken(t *testing.T) {
	s := serves(t, func(_ int, c *tls.Conn, _ *http.Request) bool { return answer(c) })
	var broken atomic.Bool
	via := caller(t, dialsFaulty(&broken, 3)).Transport("peer-1", s.contact)
	send(t, via, request(t, "GET", nil))
	broken.Store(true)
	err := fails(t, via, request(t, "GET", nil), false)
	if !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
	if s.conns.Load() != 1 {
		t.Error("another connection was tried")
	}
}

func TestNotConnected(t *testing.T) {
	closed := listen(t)
	closed.Close()
	silent := listen(t) // accepts, by its backlog, and never answers: a stopped process
	defer silent.Close()
	c := caller(t, func(o *ClientOptions) { o.DialTimeout = 100 * time.Millisecond })
	key := newIdentity(t).Key()
	for name, to := range map[string]struct {
		contact core.Contact
		cause   error
	}{
		"refused":    {core.Contact{Addr: closed.Addr().String(), Key: key}, syscall.ECONNREFUSED},
		"silent":     {core.Contact{Addr: silent.Addr().String(), Key: key}, context.DeadlineExceeded},
		"no address": {core.Contact{Key: key}, ErrNoContact},
		"no key":     {core.Contact{Addr: silent.Addr().String()}, ErrNoContact},
	} {
		err := fails(t, c.Transport("peer-1", to.contact), request(t, "POST", strings.NewReader("x")), true)
		if !errors.Is(err, to.cause) {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Probe(t.Context(), "peer-1", to.contact); !errors.Is(err, to.cause) {
			t.Errorf("probe, %s: %v", name, err)
		}
	}
	if NotConnected(nil) || NotConnected(errors.New("other")) {
		t.Error("an error that is not the client's says nothing about bytes")
	}
}

func TestCancelledBeforeAndAfter(t *testing.T) {
	started := make(chan struct{})
	s := serves(t, func(int, *tls.Conn, *http.Request) bool {
		started <- struct{}{}
		return true // no answer
	})
	dialing := make(chan struct{})
	stuck := caller(t, func(o *ClientOptions) {
		o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			close(dialing)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	for name, c := range map[string]struct {
		client       *Client
		reached      chan struct{}
		notConnected bool
	}{"waiting for a connection": {stuck, dialing, true}, "sent": {caller(t), started, false}} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-c.reached
			cancel()
		}()
		r := request(t, "GET", nil).WithContext(ctx)
		if err := fails(t, c.client.Transport("peer-1", s.contact), r, c.notConnected); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestUploadFailsInTheMiddle(t *testing.T) {
	s := serves(t, func(_ int, c *tls.Conn, r *http.Request) bool {
		io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		io.Copy(io.Discard, r.Body)
		return false
	})
	lost := errors.New("the user went away")
	body := io.MultiReader(bytes.NewReader(make([]byte, 100_000)), failingReader{lost})
	err := fails(t, caller(t).Transport("peer-1", s.contact), request(t, "PUT", body), false)
	if !errors.Is(err, lost) {
		t.Error(err)
	}
}

func TestAnotherKeyIsNotConnected(t *testing.T) {
	s := serves(t, func(_ int, c *tls.Conn, _ *http.Request) bool { return answer(c) })
	other := s.contact
	other.Key = newIdentity(t).Key()
	c := caller(t)
	if err := fails(t, c.Transport("peer-1", other), request(t, "GET", nil), true); !errors.Is(err, ErrWrongKey) {
		t.Error(err)
	}
	if err := c.Probe(t.Context(), "peer-1", other); !errors.Is(err, ErrWrongKey) {
		t.Error(err)
	}
	if s.requests.Load() != 0 {
		t.Error("a request reached a peer with another key")
	}
}
