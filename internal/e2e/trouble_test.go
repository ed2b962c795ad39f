//go:build unix

package e2e

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Trouble with the bucket is a matter of its length in TTLs: L4 holds for a TTL
// of 4s and more, and a round trip within a hundredth, which on a busy machine
// takes more.
const (
	longTTL      = 6 * time.Second
	longTakeover = longTTL + longTTL/20
	// recovery is how long after the trouble everything is as before, at the
	// most: a throttle is remembered for some seconds.
	recovery = 12 * time.Second
)

// oneIn chooses requests at random.
func oneIn(share float64, f fault) fault {
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if rand.Float64() < share {
			f(w, r, server)
			return
		}
		server.ServeHTTP(w, r)
	}
}

// overloaded is a store, or a load balancer in front of it, that has had enough.
func overloaded(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	fail(w, http.StatusServiceUnavailable, []string{"SlowDown", "ServiceUnavailable"}[rand.N(2)])
}

// onWrites is a fault of conditional writes alone.
func onWrites(f fault) fault {
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if r.Method == http.MethodPut && r.Header.Get("If-Match")+r.Header.Get("If-None-Match") != "" {
			f(w, r, server)
			return
		}
		server.ServeHTTP(w, r)
	}
}

// contended is S3 while another write to the object is under way.
func contended(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	fail(w, http.StatusConflict, "ConditionalRequestConflict")
}

// appliedLate breaks the connection, and performs the write a second later.
func appliedLate(_ http.ResponseWriter, r *http.Request, server http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		late := r.Clone(context.WithoutCancel(r.Context()))
		late.Body = io.NopCloser(bytes.NewReader(body))
		time.AfterFunc(time.Second, func() { server.ServeHTTP(httptest.NewRecorder(), late) })
	}
	panic(http.ErrAbortHandler)
}

func unreachable(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// silent is a bucket that swallows what it is asked.
func silent(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body) // else it is not noticed that the client has left
	<-r.Context().Done()
}

// troubled is a fleet of three behind a proxy, with cells that are in use all the
// time, and others that are claimed and given up again and again.
type troubled struct {
	*fleet
	proxy        *proxy
	warm, cold   *load
	cells, churn []string
}

// Every answer comes before the clients of the tests lose their patience.
var troubledFlags = []string{"--lease-ttl", longTTL.String(), "--idle-after", "2s", "--request-timeout", "3s"}

func startTroubled(t *testing.T) *troubled {
	t.Helper()
	p := openS3(t)
	x := (&proxy{}).start(t, p.server.Endpoint)
	f := startFleet(t, p.through(t, x), 3, troubledFlags...)
	s := &troubled{fleet: f, proxy: x, cells: cellNames("warm", 9), churn: cellNames("cold", 24)}
	f.claim(t, s.cells)
	s.warm = startLoadAt(t, s.cells, f.addrs(), 300*time.Millisecond)
	s.cold = startLoadAt(t, s.churn, f.addrs(), 3*time.Second)
	if !s.cold.awaitServed(s.churn, 1, time.Now().Add(startUp)) {
		t.Fatal("not every cell was served before there was trouble")
	}
	return s
}

// suffer lets a fault last, and then wants everything to be well again.
func (s *troubled) suffer(t *testing.T, what string, f fault, length time.Duration) {
	t.Helper()
	s.proxy.set(f)
	until(time.Now().Add(length))
	s.proxy.set(nil)
	over := time.Now()
	settled := poll(recovery, func() bool {
		return s.cold.servedSince(s.churn, over) && s.warm.servedSince(s.cells, over)
	})
	if !settled {
		t.Errorf("%s: not every cell was served within %v of its end", what, recovery)
	}
	t.Logf("%s: every cell served again %v after it", what, time.Since(over).Round(10*time.Millisecond))
	checkAlive(t, s.nodes...)
	for _, n := range s.nodes {
		if n.running() && n.adminStatus("/readyz") != 200 {
			t.Errorf("%s: %s is not ready after it", what, n.name)
		}
	}
}

// servedSince: each of the cells was asked for and served since an instant.
func (l *load) servedSince(cells []string, at time.Time) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	served := map[string]bool{}
	for _, a := range l.answers {
		if a.ok() && a.start.After(at) {
			served[a.cell] = true
		}
	}
	return len(served) == len(cells)
}

// finish stops the load and judges every answer there was: what is in use all the
// time needs no bucket, and nothing gets a wrong answer.
func (s *troubled) finish(t *testing.T) {
	t.Helper()
	warm, cold := s.warm.finish(), s.cold.finish()
	warm.checkUndisturbed(t)
	for _, h := range []history{warm, cold} {
		for i := range h {
			h[i].takeover = longTakeover
		}
		h.check(t)
	}
	served := cold.filter(answer.ok)
	t.Logf("%d requests for cells that come and go, %d served; this process was late by up to %v", len(cold), len(served), s.cold.worstStall())
}

// TestTroubleWithTheBucket: no node fences, nobody gets a wrong answer, and
// everything recovers by itself.
func TestTroubleWithTheBucket(t *testing.T) {
	long(t)
	t.Run("503", func(t *testing.T) {
		t.Parallel()
		s := startTroubled(t)
		s.suffer(t, "503 to 30% of all requests for 30s", oneIn(0.3, overloaded), 30*time.Second)
		s.finish(t)
	})
	t.Run("short", func(t *testing.T) {
		t.Parallel()
		s := startTroubled(t)
		s.suffer(t, "409 to every write for half a TTL", onWrites(contended), longTTL/2)
		s.suffer(t, "writes applied a second after their connection broke, for 6s", onWrites(appliedLate), 6*time.Second)
		s.suffer(t, "unreachable for half a TTL", unreachable, longTTL/2)
		s.suffer(t, "answers nothing for half a TTL", silent, longTTL/2)
		s.finish(t)
	})
	t.Run("long", func(t *testing.T) {
		t.Parallel()
		unreachableForLong(t)
	})
}

// unreachableForLong: without the bucket for longer than the TTL every node
// fences; started again, they wait for it, and serve again.
func unreachableForLong(t *testing.T) {
	s := startTroubled(t)
	old := s.nodes
	s.proxy.set(unreachable)
	began := time.Now()
	current := make([]*node, len(old))
	for i, n := range old { // the supervisor
		if code := n.exit(t, longTTL+2*time.Second-time.Since(began)); code != 3 {
			t.Errorf("%s exited with %d, want 3", n.name, code)
		}
		if since := n.ended.Sub(began); since < longTTL/2 {
			t.Errorf("%s ended after %v without the bucket, before its authority had", n.name, since)
		}
		if len(n.log.with("authority expired")) == 0 {
			t.Errorf("%s does not say why it ended", n.name)
		}
		current[i] = startNodeAt(t, s.place, i, [3]string{n.ready.Listen, n.ready.Peer, n.ready.Admin}, troubledFlags...)
	}
	until(began.Add(2 * longTTL))
	for _, n := range current {
		if !n.running() || n.isReady() || len(n.log.with("trying again")) == 0 {
			t.Errorf("%s does not wait for the bucket", n.name)
		}
	}
	s.proxy.set(nil)
	back := time.Now()
	for _, n := range current {
		n.awaitReady(t)
	}
	ready := time.Now()
	t.Logf("ready again %v after the bucket was back", ready.Sub(back).Round(10*time.Millisecond))
	checkNew(t, old, current)
	s.warm.mustServe(t, s.cells, 2, back, recovery)
	if !poll(recovery, func() bool { return s.cold.servedSince(s.churn, ready) }) {
		t.Errorf("not every cell was served within %v", recovery)
	}
	checkAlive(t, current...)
	// In between nobody listened.
	listened := func(a answer) bool { return !notServing(a.err) || a.start.After(ready) }
	for _, l := range []*load{s.warm, s.cold} {
		h := l.finish().filter(listened)
		for i := range h {
			h[i].takeover = longTakeover
		}
		h.check(t)
	}
}

// TestRetryAfter: a node that was told when to come again sends nothing about cells
// before, however many are asked for; its lease is not kept waiting; and it all
// shows in the metrics.
func TestRetryAfter(t *testing.T) {
	const wait = 4 * time.Second
	p := openS3(t)
	x := (&proxy{}).start(t, p.server.Endpoint)
	n := startFleet(t, p.through(t, x), 1, "--request-timeout", "20s").nodes[0]
	var seen renewals
	var mu sync.Mutex
	var asked []time.Time
	x.set(func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if !strings.Contains(r.URL.Path, "/cells/") {
			seen.watch(w, r, server)
			return
		}
		mu.Lock()
		asked = append(asked, time.Now())
		first := len(asked) == 1
		mu.Unlock()
		if first {
			w.Header().Set("Retry-After", "4")
			fail(w, http.StatusTooManyRequests, "TooManyRequests")
			return
		}
		server.ServeHTTP(w, r)
	})
	request(t, "GET", n.ready.Listen, "first", "")
	l := startLoad(t, cellNames("held", 20), []string{n.ready.Listen})
	if !l.awaitServed(cellNames("held", 20), 1, time.Now().Add(wait+recovery)) {
		t.Error("not every cell was served in the end")
	}
	h := l.finish()
	h.check(t)
	mu.Lock()
	defer mu.Unlock()
	if early := asked[1].Sub(asked[0]); early < wait-50*time.Millisecond {
		t.Errorf("the store was asked again after %v, it had said %v", early, wait)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.at) < int(wait/(ttl/3))-1 {
		t.Errorf("%d renewals meanwhile", len(seen.at))
	}
	metrics := adminText(t, n, "/metrics")
	if !strings.Contains(metrics, `tenure_bucket_requests_total{bucket="bucket",operation="get",key="owner",outcome="throttled"} 1`) ||
		strings.Contains(metrics, `tenure_bucket_held_total{bucket="bucket"} 0`) {
		t.Errorf("the metrics are\n%s", metrics)
	}
	checkAlive(t, n)
}

func adminText(t *testing.T, n *node, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + n.ready.Admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
