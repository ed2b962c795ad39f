//go:build unix

package e2e

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// TestRestartedFleet kills every node at once and starts as many at the same
// addresses, with clients that never stop asking. The new nodes are others:
// nobody may wait for the old ones.
func TestRestartedFleet(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 3)
		cells := cellNames("fleet", 18)
		f.claim(t, cells)
		addrs := f.addrs()
		for _, n := range f.nodes {
			n.kill(t)
		}
		for _, n := range f.nodes {
			<-n.exited
		}
		restarted := time.Now()
		l := startLoad(t, cells, addrs)
		next := &fleet{place: p}
		for i, n := range f.nodes {
			next.nodes = append(next.nodes, n.again(t, p, i))
		}
		for _, n := range next.nodes {
			n.awaitReady(t)
		}
		ready := time.Now()
		t.Logf("ready again after %v", ready.Sub(restarted).Round(time.Millisecond))
		l.mustServe(t, cells, 2, restarted, takeover+4500*time.Millisecond)
		until(time.Now().Add(300 * time.Millisecond))
		h := l.finish().filter(func(a answer) bool { return !a.start.Before(ready) || !notServing(a.err) })
		h.check(t)
		checkTakenOver(t, p, h, cells)
		checkNew(t, f.nodes, next.nodes)
		checkAlive(t, next.nodes...)
	})
}

// notServing: nobody listens at the address, or whoever did has just died.
func notServing(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, io.EOF)
}

func checkNew(t *testing.T, old, now []*node) {
	t.Helper()
	for i, n := range now {
		if n.id() == old[i].id() || n.ready.Peer != old[i].ready.Peer {
			t.Errorf("node %s at %s became %s at %s; want another id at the same address",
				old[i].id(), old[i].ready.Peer, n.id(), n.ready.Peer)
		}
	}
}

// TestRestartedOwner kills one node and starts another one at its addresses at
// once: the others still have routes to the dead one, at an address that
// answers.
func TestRestartedOwner(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 3)
		cells := cellNames("same", 18)
		owners := f.claim(t, cells)
		victim, survivors := f.nodes[0], f.nodes[1:]
		lost := ownedBy(owners, victim)
		l := startLoad(t, cells, addrsOf(survivors))
		if !l.awaitServed(cells, 1, time.Now().Add(startUp)) {
			t.Fatal("the load was not served before anything was done")
		}
		killed := victim.kill(t)
		<-victim.exited
		next := victim.again(t, p, 0)
		next.awaitReady(t)
		checkNew(t, []*node{victim}, []*node{next})
		l.mustServe(t, lost, 2, killed, takeover+1500*time.Millisecond)
		until(time.Now().Add(300 * time.Millisecond))
		for _, cell := range cells { // also through the newcomer
			l.add(request(t, "POST", next.ready.Listen, cell, ""))
		}
		h := l.finish()
		h.check(t)
		h.without(lost...).checkUndisturbed(t)
		checkTakenOver(t, p, h, lost)
		checkAlive(t, append(survivors, next)...)
	})
}
