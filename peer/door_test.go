package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/core"
)

func TestLooksUpOncePerPeer(t *testing.T) {
	f := newFleet()
	a, b := f.join(t, "a-1", hello), f.join(t, "b-1", hello)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 5 {
				if _, got := send(t, a.to(b), request(t, "GET", nil)); got != "hello a-1" {
					t.Errorf("got %q", got)
				}
			}
		})
	}
	wg.Wait()
	if f.lookedUp() != 1 {
		t.Errorf("%d look-ups", f.lookedUp())
	}
}

func TestLearnSavesTheLookUp(t *testing.T) {
	f := newFleet()
	a, b := f.join(t, "a-1", hello), f.join(t, "b-1", hello)
	b.server.Learn("a-1", a.contact)
	send(t, a.to(b), request(t, "GET", nil))
	if f.lookedUp() != 0 {
		t.Errorf("%d look-ups", f.lookedUp())
	}
}

// The same process under a new id, over the same connection.
func TestTheCallerChangesItsSession(t *testing.T) {
	f := newFleet()
	a, b := f.join(t, "a-1", hello), f.join(t, "b-1", hello)
	send(t, a.to(b), request(t, "GET", nil))
	a.rename("a-2")
	refusedAs(t, fails(t, a.to(b), request(t, "GET", nil), true), UnknownPeer)
	a.rename("a-3")
	f.publish("a-3", a.contact)
	if _, got := send(t, a.to(b), request(t, "GET", nil)); got != "hello a-3" {
		t.Errorf("got %q", got)
	}
}

func TestAnotherSessionIsNotConnected(t *testing.T) {
	f := newFleet()
	a, b := f.join(t, "a-1", hello), f.join(t, "b-1", func(http.ResponseWriter, *http.Request, core.NodeID) {
		t.Error("a request for another session was served")
	})
	via := a.to(b)
	for _, now := range []core.NodeID{"b-2", ""} {
		b.rename(now)
		for _, body := range []io.Reader{nil, strings.NewReader("short"), unread{t}} {
			refusedAs(t, fails(t, via, request(t, "POST", body), true), AnotherSession)
		}
		if err := a.client.Probe(t.Context(), "b-1", b.contact); err == nil || !strings.Contains(err.Error(), "another session") {
			t.Error(err)
		}
	}
	if f.lookedUp() != 0 {
		t.Error("a look-up for a request that is refused anyway")
	}
}

func TestOnlyTheLeasesKeyMaySpeak(t *testing.T) {
	f := newFleet()
	b := f.join(t, "b-1", func(http.ResponseWriter, *http.Request, core.NodeID) { t.Error("served") })
	f.join(t, "a-1", hello)
	for _, from := range []core.NodeID{"a-1", "nobody-1", "", "../b", core.NodeID(strings.Repeat("x", 300))} {
		impostor := caller(t, func(o *ClientOptions) { o.Self = func() core.NodeID { return from } })
		refusedAs(t, fails(t, impostor.Transport("b-1", b.contact), request(t, "GET", nil), true), UnknownPeer)
	}
	if f.lookedUp() != 2 {
		t.Errorf("%d look-ups, want one each for the two that could exist", f.lookedUp())
	}
}

// stranger speaks raw HTTP over one TLS connection.
func stranger(t testing.TB, m *member, config *tls.Config, request string) *http.Response {
	t.Helper()
	c, err := tls.Dial("tcp", m.contact.Addr, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, request)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestWithoutAKeyOnlyTheProbeAnswers(t *testing.T) {
	f := newFleet()
	a, b := f.join(t, "a-1", hello), f.join(t, "b-1", hello)
	resp := stranger(t, b, strangerTLS(nil), "GET /.tenure/probe HTTP/1.1\r\nHost: x\r\n\r\n")
	var got map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "map[node:b-1 protocol:1 version:test]" || !resp.Close {
		t.Errorf("the probe answered %v", got)
	}
	for headers, want := range map[string]string{
		"":                        string(AnotherSession),
		"Tenure-Peer-To: b-1\r\n": string(UnknownPeer),
		"Tenure-Peer-To: b-1\r\nTenure-Peer-From: a-1\r\n":                        string(UnknownPeer),
		"Tenure-Peer-To: b-1\r\nTenure-Peer-To: b-1\r\nTenure-Peer-From: a-1\r\n": string(AnotherSession),
	} {
		resp := stranger(t, b, strangerTLS(nil), "GET / HTTP/1.1\r\nHost: x\r\n"+headers+"\r\n")
		var doc struct{ Code string }
		if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil || doc.Code != want || !resp.Close {
			t.Errorf("%q: %s %v %v", headers, resp.Status, doc, err)
		}
	}
	if err := a.client.Probe(t.Context(), "b-1", b.contact); err != nil {
		t.Error(err)
	}
}

func TestProbeRefusesAnotherProtocol(t *testing.T) {
	s := serves(t, func(_ int, c *tls.Conn, _ *http.Request) bool {
		body := `{"version":"9","node":"b-1","protocol":2}`
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return true
	})
	if err := caller(t).Probe(t.Context(), "b-1", s.contact); err == nil || !strings.Contains(err.Error(), "protocol 2") {
		t.Error(err)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	f := newFleet()
	b := f.join(t, "b-1", hello)
	config := strangerTLS(newIdentity(t))
	config.MaxVersion = tls.VersionTLS12
	if c, err := tls.Dial("tcp", b.contact.Addr, config); err == nil {
		c.Close()
		t.Error("TLS 1.2 was accepted")
	}
	old := newIdentity(t)
	server := old.serverTLS()
	server.MinVersion, server.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	l := tls.NewListener(listen(t), server)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	contact := core.Contact{Addr: l.Addr().String(), Key: old.Key()}
	fails(t, caller(t).Transport("old-1", contact), request(t, "GET", nil), true)
}

// Any number of strangers costs a bounded number of look-ups, and peers that are
// known keep being served.
func TestStrangersCostFewLookUps(t *testing.T) {
	f := newFleet()
	a, b := f.join(t, "a-1", hello), f.join(t, "b-1", hello, func(o *ServerOptions, _ *ClientOptions) {
		o.LookupsPerSecond, o.LookupTimeout = 1, 50*time.Millisecond
	})
	send(t, a.to(b), request(t, "GET", nil))
	start := time.Now()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 60 {
				c := caller(t, func(o *ClientOptions) {
					o.Self = func() core.NodeID { return core.NodeID(fmt.Sprintf("stranger-%d-%d", worker, i)) }
				})
				fails(t, c.Transport("b-1", b.contact), request(t, "GET", nil), true)
				c.Close()
			}
		})
	}
	wg.Wait()
	limit := flightBurst + int(time.Since(start)/time.Second) + 2
	if got := f.lookedUp(); got > limit {
		t.Errorf("%d look-ups, the limit is %d", got, limit)
	}
	a.client.Forget("b-1") // a new connection of a known peer
	send(t, a.to(b), request(t, "GET", nil))
}

// Connections that are only held on to push each other out.
func TestStrangersCannotCrowdPeersOut(t *testing.T) {
	f := newFleet()
	a, b := f.join(t, "a-1", hello), f.join(t, "b-1", hello, func(o *ServerOptions, _ *ClientOptions) {
		o.MaxStrangers, o.HandshakeTimeout = 4, 2*patience
	})
	send(t, a.to(b), request(t, "GET", nil))
	verified := slices.Collect(maps.Keys(a.client.conns.open))
	var held []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", b.contact.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	for _, c := range held[:16] { // what the server closed reads as an end
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Fatal("an old stranger was kept")
		}
	}
	send(t, a.to(b), request(t, "GET", nil))
	if now := slices.Collect(maps.Keys(a.client.conns.open)); !slices.Equal(now, verified) {
		t.Error("a verified connection was pushed out")
	}
	a.client.Forget("b-1")
	send(t, a.to(b), request(t, "GET", nil)) // and a new one
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func TestASilentHandshakeEnds(t *testing.T) {
	f := newFleet()
	b := f.join(t, "b-1", hello, func(o *ServerOptions, _ *ClientOptions) {
		o.HandshakeTimeout, o.HeaderTimeout = 50*time.Millisecond, 50*time.Millisecond
	})
	raw, err := net.Dial("tcp", b.contact.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	shaken, err := tls.Dial("tcp", b.contact.Addr, strangerTLS(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer shaken.Close()
	for _, c := range []net.Conn{raw, shaken} {
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Error("the server waits for ever")
		}
	}
}

func TestRosterForgetsWhatItDidNotFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newRoster(ctx, ServerOptions{Lookup: f.lookup}.withDefaults())
		for range 3 {
			if why := r.check(ctx, "a-1", "k"); why != UnknownPeer {
				t.Error(why)
			}
		}
		f.publish("a-1", core.Contact{Key: "k"})
		if r.check(ctx, "a-1", "k") != UnknownPeer || f.lookedUp() != 1 {
			t.Error("what was not found is asked for again at once")
		}
		<-time.After(unknownFor)
		for range 3 {
			if why := r.check(ctx, "a-1", "k"); why != "" {
				t.Error(why)
			}
		}
		if f.lookedUp() != 2 || r.check(ctx, "a-1", "other") != UnknownPeer || r.check(ctx, "a-1", "") != UnknownPeer {
			t.Error("a wrong key")
		}
	})
}

// The rate holds over time, whoever asks; a caller waits for its turn, and no
// longer than the timeout.
func TestRosterKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newRoster(ctx, ServerOptions{Lookup: f.lookup, LookupsPerSecond: 10}.withDefaults())
		start := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		verdicts := make(map[Refusal]int)
		for i := range 300 {
			wg.Go(func() {
				why := r.check(ctx, core.NodeID(fmt.Sprint("s-", i)), "k")
				mu.Lock()
				verdicts[why]++
				mu.Unlock()
			})
		}
		wg.Wait()
		if took := time.Since(start); took > defaultLookupTimeout {
			t.Errorf("a stranger waited for %v", took)
		}
		if n := f.lookedUp(); n != verdicts[UnknownPeer] || n < flightBurst || n > flightBurst+10*5 {
			t.Errorf("%d look-ups, verdicts %v", n, verdicts)
		}
		if verdicts[PeerBusy] == 0 || len(r.flights) != 0 {
			t.Errorf("verdicts %v, flights %d", verdicts, len(r.flights))
		}
		<-time.After(time.Second) // the refused took no turns
		f.publish("a-1", core.Contact{Key: "k"})
		if why := r.check(ctx, "a-1", "k"); why != "" {
			t.Errorf("after the rush: %s", why)
		}
	})
}
