//go:build unix

package e2e

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestDrainedOwner ends an owner in the orderly way: what runs is finished, and
// its cells move on with no wait (L3).
func TestDrainedOwner(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 3)
		cells := cellNames("drain", 24)
		owners := f.claim(t, cells)
		leaving, stays := f.nodes[0], f.nodes[1]
		lost := ownedBy(owners, leaving)
		for _, cell := range lost { // routes, which must not be followed for long
			if a := request(t, "GET", stays.ready.Listen, cell, ""); !a.ok() {
				t.Fatalf("before the drain: %v", a)
			}
		}
		busy, early, rest := lost[:2], lost[2:4], lost[4:]
		running := startSlow(t, busy, []string{leaving.ready.Listen, stays.ready.Listen})

		told := time.Now()
		leaving.signal(t, syscall.SIGTERM)
		eventually(t, time.Second, "readyz of the draining node is 503", func() bool {
			return leaving.adminStatus("/readyz") == 503
		})
		if s := leaving.adminStatus("/healthz"); s != 200 {
			t.Errorf("healthz of the draining node is %d, want 200", s)
		}
		moved := moveAtOnce(t, f, early)
		if !leaving.running() {
			t.Error("the node ended while requests were running")
		}
		for _, a := range running() {
			if !a.ok() || a.node != leaving.id() || a.epoch != 1 {
				t.Errorf("a request that ran when the drain began: %v; want it finished", a)
			}
		}
		if code := leaving.exit(t, 5*time.Second); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		t.Logf("drained after %v", leaving.ended.Sub(told).Round(time.Millisecond))
		if _, err := os.Stat(leaving.readyPath); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the ready file is still there: %v", err)
		}
		for _, cell := range append(busy, rest...) {
			checkOwnRecord(t, p, cell, "", 1)
		}
		moved = append(moved, moveAtOnce(t, f, append(busy, rest...))...)
		moved.check(t)
		checkTakenOver(t, p, moved, lost)
		checkAlive(t, f.nodes[1:]...)
	})
}

// startSlow starts a request that takes its time on each cell, through one node
// each, and returns once all run; the answers can be waited for.
func startSlow(t *testing.T, cells, via []string) func() history {
	t.Helper()
	h := make(history, len(cells))
	var work sync.WaitGroup
	for i, cell := range cells {
		work.Go(func() { h[i] = request(t, "GET", via[i], cell, "/slow?for=1500ms") })
	}
	until(time.Now().Add(500 * time.Millisecond)) // they are quick to begin
	return func() history {
		work.Wait()
		return h
	}
}

// moveAtOnce asks the nodes that stay for released cells. There is nothing to
// wait for, so the first request must be served, far within a TTL.
func moveAtOnce(t *testing.T, f *fleet, cells []string) history {
	t.Helper()
	var h history
	var took []time.Duration
	for i, cell := range cells {
		a := request(t, "POST", f.nodes[1+i%2].ready.Listen, cell, "")
		if !a.ok() || a.epoch != 2 || a.node == f.nodes[0].id() {
			t.Errorf("first request for a released cell: %v; want it served elsewhere, at epoch 2", a)
		}
		h = append(h, a)
		took = append(took, a.end.Sub(a.start))
		if d := took[i]; d > ttl/2 {
			t.Errorf("a released cell took %v to move: %v", d, a)
		}
	}
	t.Logf("released cells moved after: %s", span(took))
	return h
}
