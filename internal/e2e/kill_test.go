//go:build unix

package e2e

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestKilledOwnerUnderLoad kills an owner while clients keep asking for every
// cell through the other nodes. Their traces, replayed, tell what happened.
func TestKilledOwnerUnderLoad(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 3, traced...)
		cells := cellNames("kill", 24)
		owners := f.claim(t, cells)
		victim, survivors := f.nodes[0], f.nodes[1:]
		lost := ownedBy(owners, victim)

		l := startLoad(t, cells, addrsOf(survivors))
		if !l.awaitServed(cells, 1, time.Now().Add(startUp)) {
			t.Fatal("the load was not served before anything was done")
		}
		until(time.Now().Add(time.Second))
		before := l.history()
		killed := victim.kill(t)
		l.mustServe(t, lost, 2, killed, takeover+1500*time.Millisecond)
		until(time.Now().Add(700 * time.Millisecond)) // for answers that come too late
		h := l.finish()

		before.checkUndisturbed(t)
		h.check(t)
		h.without(lost...).checkUndisturbed(t)
		h.since(killed).of(lost...).checkRetryAfter(t, time.Second)
		checkTakenOver(t, p, h.since(killed), lost)
		checkAlive(t, survivors...)
		checkTraces(t, f, victim, h.since(killed), lost)
	})
}

// checkTakenOver wants each cell at epoch 2, by its record and by its last
// answer.
func checkTakenOver(t *testing.T, p place, h history, cells []string) {
	t.Helper()
	for _, cell := range cells {
		last := h.of(cell).filter(answer.ok)
		if len(last) == 0 {
			t.Errorf("cell %s was never served again", cell)
			continue
		}
		a := last[len(last)-1]
		if a.epoch != 2 {
			t.Errorf("after one takeover: %v", a)
		}
		checkOwnRecord(t, p, cell, a.node, 2)
	}
}

// TestKilledOwnerWithoutLoad asks for a dead node's cells for the first time
// when its lease has aged: no observation has begun by then, and nobody should
// have to wait for one (L2).
func TestKilledOwnerWithoutLoad(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 3)
		cells := cellNames("idle", 18)
		owners := f.claim(t, cells)
		victim, survivors := f.nodes[0], f.nodes[1:]
		lost := ownedBy(owners, victim)
		for _, cell := range lost[:len(lost)/2] { // of these there is a route
			if a := request(t, "GET", survivors[0].ready.Listen, cell, ""); !a.ok() {
				t.Errorf("before the kill: %v", a)
			}
		}
		killed := victim.kill(t)
		until(killed.Add(takeover + 3*time.Second + 200*time.Millisecond))

		l := &load{}
		for _, cell := range lost {
			l.work.Go(func() {
				c := newClient(patience)
				defer c.close()
				via := survivors[rand.N(len(survivors))].ready.Listen
				for a := c.do(t.Context(), "POST", via, cell, ""); ; a = c.do(t.Context(), "POST", via, cell, "") {
					l.add(a)
					if a.ok() || time.Since(killed) > takeover+8*time.Second {
						return
					}
					until(time.Now().Add(50 * time.Millisecond))
				}
			})
		}
		l.work.Wait()
		l.mustServe(t, lost, 2, killed, takeover+4500*time.Millisecond)
		l.answers.check(t)
		for _, a := range l.answers {
			if !a.ok() {
				t.Errorf("a request that came %v after the kill was not served at once: %v", a.start.Sub(killed), a)
			}
		}
		checkTakenOver(t, p, l.answers, lost)
		checkAlive(t, survivors...)
	})
}
