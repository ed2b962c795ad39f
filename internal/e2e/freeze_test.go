//go:build unix

package e2e

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestFrozenOwner stops an owner's process for at least two TTLs, with every kind of
// request open to it, and lets it go on. Its lease is another's by then: it
// must not answer anything as owner, and end.
func TestFrozenOwner(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 3)
		cells := cellNames("freeze", 18)
		owners := f.claim(t, cells)
		victim, survivors := f.nodes[0], f.nodes[1:]
		lost := ownedBy(owners, victim)
		stream := openStream(t, victim.ready.Listen, lost[0])
		direct := startDirect(t, victim, lost)

		l := startLoad(t, cells, addrsOf(survivors))
		if !l.awaitServed(cells, 1, time.Now().Add(startUp)) {
			t.Fatal("the load was not served before anything was done")
		}
		until(time.Now().Add(500 * time.Millisecond))
		frozen := victim.freeze(t)
		direct.request(lost) // they wait in the sockets of a process that does not run
		l.mustServe(t, lost, 2, frozen, ttl/3+takeover+1500*time.Millisecond)
		until(frozen.Add(max(2*ttl, 6*time.Second))) // no longer than the demo's heartbeat
		lease := record(t, p.leases, leaseKey(victim.id()))
		thawed := time.Now()
		victim.signal(t, syscall.SIGCONT)

		if code := victim.exit(t, 3*time.Second); code != 3 {
			t.Errorf("the thawed process exited with %d, want 3", code)
		}
		t.Logf("the thawed process ended after %v", victim.ended.Sub(thawed).Round(time.Millisecond))
		if len(victim.log.with("fenced: authority expired")) == 0 {
			t.Errorf("its stderr does not say \"fenced: authority expired\"")
		}
		until(time.Now().Add(500 * time.Millisecond)) // for answers that come too late
		checkFrozenAnswers(t, direct.finish(), thawed)
		stream.checkEnded(t, thawed)
		if now := record(t, p.leases, leaseKey(victim.id())); now != lease {
			t.Errorf("the fenced node wrote its lease: it was %s, is %s", lease, now)
		}
		h := l.finish()
		h.check(t)
		h.without(lost...).checkUndisturbed(t)
		checkTakenOver(t, p, h.since(frozen), lost)
		checkAlive(t, survivors...)
	})
}

// TestPausedOwner stops an owner for long enough to be suspected, and too short
// to lose its lease. That must cost nobody anything but time: a cell that moved
// would have had two owners.
func TestPausedOwner(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 3)
		cells := cellNames("pause", 18)
		owners := f.claim(t, cells)
		victim := f.nodes[0]
		paused := ownedBy(owners, victim)
		l := startLoad(t, cells, addrsOf(f.nodes[1:]))
		if !l.awaitServed(cells, 1, time.Now().Add(startUp)) {
			t.Fatal("the load was not served before anything was done")
		}
		victim.awaitRenewal(t, p)
		stopped := victim.freeze(t)
		until(stopped.Add(ttl / 2))
		// Whoever asks now need not wait for the owner to come back, if others
		// have waited for it at the same node; else it waits, and the owner
		// comes back all the same.
		asked := make(chan answer, 1)
		go func() { asked <- request(t, "GET", f.nodes[1].ready.Listen, paused[0], "") }()
		until(stopped.Add(ttl * 6 / 10))
		thawed := time.Now()
		victim.signal(t, syscall.SIGCONT)
		a := <-asked
		t.Logf("while the owner was paused: %v", a)
		l.add(a)
		until(thawed.Add(takeover + 500*time.Millisecond)) // whoever suspects it has made up its mind
		h := l.finish()
		h.check(t)
		h.without(paused...).checkUndisturbed(t)
		h.filter(func(a answer) bool { return a.ok() || a.start.After(thawed.Add(ttl/2)) }).checkUndisturbed(t)
		for _, cell := range paused {
			checkOwnRecord(t, p, cell, victim.id(), 1)
		}
		checkAlive(t, f.nodes...)
	})
}

// awaitRenewal returns when the node has just written its lease, and knows.
func (n *node) awaitRenewal(t *testing.T, p place) {
	t.Helper()
	before := object(t, p.leases, leaseKey(n.id())).Version
	eventually(t, ttl, n.name+" renews its lease", func() bool {
		return object(t, p.leases, leaseKey(n.id())).Version != before
	})
	until(time.Now().Add(ttl / 10)) // the store shows it before it has answered
}

// checkFrozenAnswers judges what the frozen process itself answered: nothing
// good after it was thawed, and either a broken connection or a coded failure.
func checkFrozenAnswers(t *testing.T, h history, thawed time.Time) {
	t.Helper()
	t.Logf("asked of the frozen process itself: %d, failures: %v", len(h), h.codes())
	for _, a := range h {
		switch {
		case a.end.Before(thawed) && a.ok():
			t.Errorf("a process that does not run has answered: %v", a)
		case a.ok():
			t.Errorf("S7: the thawed process answered as owner, %v after it was thawed: %v", a.end.Sub(thawed), a)
		case a.err == nil && a.explained() != nil:
			t.Errorf("%v\n  in: %v", a.explained(), a)
		}
	}
}

// direct is requests to one node that will be frozen.
type direct struct {
	node   *node
	client *client
	work   sync.WaitGroup
	lock   sync.Mutex
	h      history
}

// startDirect opens connections to the node, which are kept, and requests that
// will be due while it is frozen.
func startDirect(t *testing.T, n *node, cells []string) *direct {
	t.Helper()
	d := &direct{node: n, client: newClient(time.Minute)}
	t.Cleanup(d.client.close)
	for _, cell := range cells { // one connection each: they run at the same time
		d.work.Go(func() { d.client.do(context.Background(), "GET", n.ready.Listen, cell, "/slow?for=50ms") })
	}
	d.work.Wait()
	d.start(cells[0], "GET", "/slow?for=4s")
	d.start(cells[1], "GET", "/slow?for=20s")
	return d
}

// request sends one request for each cell.
func (d *direct) request(cells []string) {
	for _, cell := range cells {
		d.start(cell, "POST", "")
	}
}

func (d *direct) start(cell, method, rest string) {
	d.work.Go(func() {
		a := d.client.do(context.Background(), method, d.node.ready.Listen, cell, rest)
		d.lock.Lock()
		defer d.lock.Unlock()
		d.h = append(d.h, a)
	})
}

func (d *direct) finish() history {
	d.work.Wait()
	return d.h
}

// stream is an open stream of server-sent events.
type stream struct {
	lock  sync.Mutex
	last  time.Time // of the last byte
	lines []string
	ended chan struct{}
}

// openStream returns when the first event is there.
func openStream(t *testing.T, via, cell string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+via+"/cells/"+cell+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Transport).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("the stream of events has status %s, type %q", resp.Status, resp.Header.Get("Content-Type"))
	}
	s := &stream{ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			s.lock.Lock()
			s.last, s.lines = time.Now(), append(s.lines, lines.Text())
			s.lock.Unlock()
		}
	}()
	return s
}

// checkEnded wants the stream to have ended with its owner.
func (s *stream) checkEnded(t *testing.T, thawed time.Time) {
	t.Helper()
	if !poll(time.Second, func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	}) {
		t.Error("the stream of events is still open though its owner is over")
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	t.Logf("%d lines of events; the last one %v after the thaw", len(s.lines), s.last.Sub(thawed).Round(time.Millisecond))
	if s.last.After(thawed) {
		t.Errorf("the thawed owner still sent events: %q", s.lines[len(s.lines)-1])
	}
}
