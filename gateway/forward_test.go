package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
)

// failing answers every request with a failure of the core.
func failing(f core.Failure) func(*call, int) core.Effect {
	return func(*call, int) core.Effect { return core.Fail{Failure: f} }
}

// node returns a peer that does what plan says, with an application that
// answers with the number of bytes it got.
func node(t *testing.T, plan func(*call, int) core.Effect) (*decider, *httptest.Server) {
	d := &decider{self: "b-1", plan: plan}
	app := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, r.Header["Expect"])
	}))
	return d, servePeer(t, newGateway(t, d, localOf(newApp(t, app.URL))))
}

// inTurn forwards to one address after another; an empty one dispatches here.
func inTurn(addrs ...string) func(*call, int) core.Effect {
	return func(c *call, n int) core.Effect {
		switch {
		case n >= len(addrs):
			return core.Fail{Failure: core.Failure{Code: core.CodeOwnerUnsettled}}
		case addrs[n] == "":
			return core.Dispatch{Cell: c.cell, Epoch: 1}
		}
		return core.Forward{Cell: c.cell, Node: core.NodeID(fmt.Sprint("n-", n)), Contact: core.Contact{Addr: addrs[n]}}
	}
}

// bodies of all kinds: none, small, large and of unknown length.
var bodies = map[string]struct {
	size  int
	known bool
}{
	"none": {0, true}, "small": {100, true}, "limit": {maxReplay, true},
	"large": {8 << 20, true}, "small, chunked": {100, false}, "large, chunked": {8 << 20, false},
}

func bodyOf(size int, known bool) io.Reader {
	if size == 0 {
		return nil
	}
	r := bytes.NewReader(make([]byte, size))
	if known {
		return r
	}
	return io.MultiReader(r)
}

// A node that is not the owner, or cannot be reached, or refuses, costs nothing:
// the body goes to the next one, whatever its size.
func TestBodyIsSentAgain(t *testing.T) {
	_, notMine := node(t, failing(core.Failure{Code: core.CodeNotMine}))
	_, full := node(t, failing(core.Failure{Code: core.CodeNoCapacity}))
	_, owner := node(t, dispatchAt(4))
	for name, b := range bodies {
		for _, last := range []string{addrOf(owner), ""} {
			app := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, n, r.Header["Expect"])
			}))
			d := &decider{self: "a-1", plan: inTurn(addrOf(notMine), "127.0.0.1:1", addrOf(full), last)}
			s := serveHTTP(t, newGateway(t, d, localOf(newApp(t, app.URL))))
			res := do(t, request(t, "POST", s.URL+"/cells/x/", bodyOf(b.size, b.known)))
			if got, want := readAll(t, res.Body), fmt.Sprint(b.size, " []"); res.StatusCode != 200 || got != want {
				t.Errorf("%s: got %d %s, want %s", name, res.StatusCode, got, want)
			}
			d.settle()
			want := []core.ForwardFailure{core.NotMine, core.NotConnected, core.PeerRefused}
			if got := d.last().hops(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: told the core %v", name, got)
			}
		}
	}
}

// If the peer has read the body and then refuses, the request is given up: it
// was not run, and the client may send it again.
func TestSpentBodyIsGivenUp(t *testing.T) {
	refuser := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		writeRefusal(w, "x", core.Failure{Code: core.Code(r.Header.Get("Refuse"))})
	}))
	d := &decider{self: "a-1", plan: inTurn(addrOf(refuser), addrOf(refuser))}
	s := serveHTTP(t, newGateway(t, d, localOf(nil)))
	for code, want := range map[string]core.Code{"not-mine": core.CodeOwnerUnreachable, "no-capacity": core.CodeNoCapacity} {
		req := request(t, "POST", s.URL+"/cells/x/", bodyOf(1<<20, true))
		req.Header.Set("Refuse", code)
		if p := problem(t, do(t, req)); p.Code != want || p.Executed != "no" {
			t.Errorf("%s: %+v", code, p)
		}
		d.settle()
		if got := d.last().hops(); len(got) != 1 {
			t.Errorf("%s: told the core %v", code, got)
		}
	}
}

func TestPeersRefusalIsTheCores(t *testing.T) {
	refusal := core.Failure{Code: core.CodeOwnerUnreachable, Ran: false, RetryAfter: core.Time(3 * time.Second), Detail: "why", Node: "c-1", Epoch: 9}
	_, peer := node(t, failing(refusal))
	d := &decider{self: "a-1", plan: thenFail(forwardTo("b-1", addrOf(peer)))}
	s := serveHTTP(t, newGateway(t, d, localOf(nil)))
	res := get(t, s.URL+"/cells/x/")
	p := problem(t, res)
	if p.Code != refusal.Code || p.Node != "c-1" || p.Epoch != 9 || p.Detail != "why" || p.Executed != "no" || res.Header.Get("Retry-After") != "3" {
		t.Errorf("%+v", p)
	}
	if got := d.last().refusals[0]; got != refusal {
		t.Errorf("the core heard %+v", got)
	}
	// An answer to HEAD has no body, and yet says what counts.
	do(t, request(t, "HEAD", s.URL+"/cells/x/", nil))
	got := d.last().refusals[0]
	if got.Code != refusal.Code || got.Ran || got.RetryAfter != refusal.RetryAfter {
		t.Errorf("HEAD: the core heard %+v", got)
	}
}

func TestPeersBrokenAppIsUnknown(t *testing.T) {
	owner := &decider{self: "b-1", plan: dispatchAt(4)}
	peer := servePeer(t, newGateway(t, owner, localOf(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("x") }))))
	d := &decider{self: "a-1", plan: thenFail(forwardTo("b-1", addrOf(peer)))}
	s := serveHTTP(t, newGateway(t, d, localOf(nil)))
	if p := problem(t, do(t, request(t, "POST", s.URL+"/cells/x/", nil))); p.Code != core.CodeAppBroken || p.Executed != "unknown" || p.Node != "b-1" || p.Epoch != 4 {
		t.Errorf("%+v", p)
	}
}

// A request of which something was written is not sent again, whatever net/http
// thinks of its method.
func TestForwardIsNotReplayed(t *testing.T) {
	var seen atomic.Int32
	peer := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	d := &decider{self: "a-1", plan: forwardTo("b-1", addrOf(peer))}
	s := serveHTTP(t, newGateway(t, d, localOf(nil)))
	get(t, s.URL+"/cells/x/")
	d.plan = thenFail(d.plan)
	p := problem(t, get(t, s.URL+"/cells/x/"))
	if p.Code != core.CodeOwnerLost || p.Executed != "unknown" || seen.Load() != 2 {
		t.Errorf("%+v after %d requests", p, seen.Load())
	}
	if got := d.last().hops(); len(got) != 1 || got[0] != core.ForwardBroken {
		t.Errorf("told the core %v", got)
	}
}

func TestNoTransport(t *testing.T) {
	d := &decider{self: "a-1", plan: thenFail(forwardTo("b-1", ""))}
	s := serveHTTP(t, newGateway(t, d, localOf(nil)))
	if p := problem(t, get(t, s.URL+"/cells/x/")); p.Executed != "no" || d.last().hops()[0] != core.NotConnected {
		t.Errorf("%+v %v", p, d.last().hops())
	}
}

func TestForwardCarriesTheTimeLeft(t *testing.T) {
	f := elsewhere(t, http.NotFoundHandler())
	get(t, f.url+"/cells/x/")
	c := f.owner.last()
	if !c.forwarded || c.timeout > f.node.last().timeout || c.timeout <= f.node.last().timeout/2 {
		t.Errorf("forwarded %v, timeout %v of %v", c.forwarded, c.timeout, f.node.last().timeout)
	}
	if n := f.node.last(); n.forwarded || n.timeout != 30*time.Second {
		t.Errorf("first hop: forwarded %v, timeout %v", n.forwarded, n.timeout)
	}
}

func TestPeerTimeoutIsCapped(t *testing.T) {
	g := newGateway(t, &decider{}, localOf(nil))
	for v, want := range map[string]time.Duration{
		"": g.Timeout, "x": g.Timeout, "-1": g.Timeout, "0": g.Timeout, "999999999": g.Timeout,
		"9223372036854775807": g.Timeout, "1500": 1500 * time.Millisecond,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(peerTimeout, v)
		if got := g.peerTimeout(r); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}

// A peer's target is judged like a client's.
func TestPeerTargetIsJudged(t *testing.T) {
	_, peer := node(t, dispatchAt(1))
	for cell, want := range map[string]string{"": "bad-cell-name", "a/b": "bad-cell-name", "x": "not-found"} {
		req := request(t, "GET", peer.URL+"/.tenure/activate", nil)
		req.Header.Set(peerCell, cell)
		res := do(t, req)
		if got := res.Header.Get(peerRefused); got != want || res.Header.Get(peerExecuted) != "no" {
			t.Errorf("%q: got %s, want %s", cell, got, want)
		}
	}
}

// The client's own Expect reaches the application, and its refusal the client.
func TestClientsExpectation(t *testing.T) {
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Refuse") != "" {
			http.Error(w, "no", http.StatusRequestEntityTooLarge)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, r.Header["Expect"])
	}, func(t *testing.T, f *fleet) {
		tr := &http.Transport{ExpectContinueTimeout: time.Minute}
		defer tr.CloseIdleConnections()
		for _, size := range []int{100, 1 << 20} {
			req := request(t, "POST", f.url+"/cells/x/", bodyOf(size, true))
			req.Header.Set("Expect", "100-continue")
			res, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := readAll(t, res.Body), fmt.Sprintf("%d [100-continue]", size); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			res.Body.Close()
			body := &countingReader{Reader: strings.NewReader(strings.Repeat("x", size))}
			req = request(t, "POST", f.url+"/cells/x/", body)
			req.ContentLength = int64(size)
			req.Header.Set("Expect", "100-continue")
			req.Header.Set("Refuse", "1")
			if res, err = tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 413 {
				t.Errorf("got %d", res.StatusCode)
			}
			res.Body.Close()
			if size > maxReplay && body.n.Load() > 0 {
				t.Errorf("%d bytes of a refused body were sent", body.n.Load())
			}
		}
	})
}

type countingReader struct {
	io.Reader
	n atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// After an informational answer the core has let the answer out: what fails
// then is answered without asking it again.
func TestFailureAfterInformational(t *testing.T) {
	owner := &decider{self: "b-1", plan: dispatchAt(4)}
	peer := servePeer(t, newGateway(t, owner, localOf(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		panic("x")
	}))))
	d := &decider{self: "a-1", plan: forwardTo("b-1", addrOf(peer))}
	s := serveHTTP(t, newGateway(t, d, localOf(nil)))
	if p := problem(t, get(t, s.URL+"/cells/x/")); p.Code != core.CodeAppBroken || p.Executed != "unknown" {
		t.Errorf("%+v", p)
	}
	d.settle()
}
