//go:build unix

package e2e

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// TestEveryCellHasOneOwner asks for many cells through all nodes at once, from
// the first request on.
func TestEveryCellHasOneOwner(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 3)
		for i, n := range f.nodes {
			n.checkSkew(t, p, i)
		}
		cells := cellNames("room", 50)
		h := askAtRandom(t, cells, f.addrs(), 40)
		h.check(t)
		h.checkUndisturbed(t)
		owners := map[string]int{}
		for _, cell := range cells {
			a := h.of(cell)[0]
			owners[a.node]++
			checkOwnRecord(t, p, cell, a.node, 1)
		}
		t.Logf("cells by owner: %v", owners)
		if len(owners) != 3 {
			t.Errorf("%d nodes own cells, want 3", len(owners))
		}
		for _, a := range h {
			if a.method == "POST" && a.count < 1 {
				t.Fatalf("a POST was answered without its count: %v", a)
			}
		}
		checkAlive(t, f.nodes...)
	})
}

// askAtRandom makes requests per cell, GET and POST, through nodes at random,
// some at the same time.
func askAtRandom(t *testing.T, cells, via []string, requests int) history {
	var jobs []string
	for range requests {
		jobs = append(jobs, cells...)
	}
	rand.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	const clients = 8
	parts := make([]history, clients)
	var work sync.WaitGroup
	for i := range clients {
		work.Go(func() {
			c := newClient(patience)
			defer c.close()
			for j := i; j < len(jobs); j += clients {
				method := []string{"GET", "POST"}[rand.N(2)]
				parts[i] = append(parts[i], c.do(t.Context(), method, via[rand.N(len(via))], jobs[j], ""))
			}
		})
	}
	work.Wait()
	var all history
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}
