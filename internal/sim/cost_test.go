package sim

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
)

// calmFleet is a fleet without any faults, that has run for a while.
func calmFleet(seed uint64, nodes int, change func(*world)) *world {
	cfg := Config{Seed: seed, For: time.Hour, Nodes: nodes, Cells: 1, Faults: []string{}}
	w := newWorld(cfg)
	p := &w.plan
	p.ttl, p.slack, p.http = 10*second, second/2, true
	p.idleAfter, p.failoverWait, p.requestTimeout, p.maxCells = 0, 0, 30*time.Second, 0
	p.maxActivations, p.maxReleases, p.maxQueue, p.maxRoutes, p.maxPeers = 64, 64, 20_000, 20_000, 64
	w.calm = true // requests are short
	if change != nil {
		change(w)
	}
	for _, m := range w.machines {
		w.boot(m)
	}
	w.run(3 * p.ttl)
	return w
}

// serve sends requests for cells and lets all of them end.
func (w *world) serve(t *testing.T, p *proc, cells ...core.CellName) {
	t.Helper()
	var asked []*ask
	for _, c := range cells {
		asked = append(asked, p.request(c, 20*w.plan.ttl, false, false))
	}
	w.run(w.t + int64(len(cells))*20*millisecond + w.plan.ttl/2)
	for _, a := range asked {
		if !a.begun {
			t.Fatalf("not served: %+v", *a)
		}
	}
	if w.bad != nil {
		t.Fatal(w.bad)
	}
}

// vanish takes a process away for good.
func (p *proc) vanish() {
	p.dead, p.m.proc = true, nil
	p.w.procs = slices.DeleteFunc(p.w.procs, func(q *proc) bool { return q == p })
	p.killAll()
}

func cellNames(n int) []core.CellName {
	names := make([]core.CellName, n)
	for i := range names {
		names[i] = core.CellName(fmt.Sprintf("c%d", i))
	}
	return names
}

type cost = map[string]int

// spent is what a process asks of the bucket, and of its peers, during something,
// apart from its renewals.
func spent(p *proc, do func()) cost {
	before := copied(p.watch.asks)
	do()
	c := cost{}
	for what, n := range p.watch.asks {
		if d := n - before[what]; d != 0 && what != "own replace" {
			c[what] = d
		}
	}
	return c
}

// A node's steady cost is one lease write per renewal, however many cells it
// owns, and it is left alone in between (B1).
func TestCostOfIdleCells(t *testing.T) {
	for _, cells := range []int{0, 10_000} {
		w := calmFleet(1, 1, nil)
		p := w.procs[0]
		for batch := range slices.Chunk(cellNames(cells), 500) {
			w.serve(t, p, batch...)
		}
		const renewals = 30
		renewed, steps := p.watch.asks["own replace"], w.stats.Steps
		got := spent(p, func() { w.run(w.t + renewals*w.plan.ttl/3) })
		if n := p.watch.asks["own replace"] - renewed; n < renewals-3 || n > renewals+3 || len(got) > 0 {
			t.Errorf("with %d cells: %d lease writes in %d renewal intervals, and %v", cells, n, renewals, got)
		}
		if n := w.stats.Steps - steps; n > 3*renewals {
			t.Errorf("with %d idle cells: %d steps in %d renewal intervals", cells, n, renewals)
		}
		if owned := p.state.Counts().Owned; owned != cells || w.bad != nil {
			t.Errorf("owns %d cells, want %d; %v", owned, cells, w.bad)
		}
		w.close()
	}
}

func TestCostOfACell(t *testing.T) {
	w := calmFleet(2, 2, nil)
	defer w.close()
	p, q := w.procs[0], w.procs[1]
	check := func(what string, got, want cost) {
		t.Helper()
		if !maps.Equal(got, want) {
			t.Errorf("%s cost %v, want %v", what, got, want)
		}
	}
	claim := cost{"cell get": 1, "cell create": 1}
	check("the first claim", spent(p, func() { w.serve(t, p, "a") }), claim)
	check("a warm request", spent(p, func() { w.serve(t, p, "a") }), cost{})
	check("the first forward", spent(q, func() { w.serve(t, q, "a") }), cost{"cell get": 1, "lease get": 1})
	check("a warm forward", spent(q, func() { w.serve(t, q, "a") }), cost{})
	check("its owner's part", spent(p, func() { w.serve(t, q, "a") }), cost{})
	evict := func() { p.start(func() { p.n.Evict("a") }); w.run(w.t + w.plan.ttl) }
	check("a release", spent(p, evict), cost{"cell replace": 1})
	check("a released cell elsewhere", spent(q, func() { w.serve(t, p, "b"); w.serve(t, q, "c") }), claim)
}

func TestCostOfATakeover(t *testing.T) {
	w := calmFleet(3, 2, nil)
	defer w.close()
	p := w.procs[0]
	w.serve(t, p, cellNames(60)...)
	w.procs[1].vanish() // one that knows nobody comes after it
	w.boot(w.machines[1])
	w.run(w.t + 2*w.plan.ttl)
	p.vanish()
	w.run(w.t + 2*w.plan.ttl + w.plan.ttl/2)
	q := w.procs[0]
	if got := spent(q, func() { w.serve(t, q, "c0") }); !maps.Equal(got, cost{"cell get": 1, "lease get": 1, "cell replace": 1}) {
		t.Errorf("the first takeover cost %v", got)
	}
	if got := spent(q, func() { w.serve(t, q, "c1") }); !maps.Equal(got, cost{"cell get": 1, "cell replace": 1}) {
		t.Errorf("the next takeover from the same node cost %v", got)
	}
}

func TestCellsOfOneDeadOwnerShareTheReads(t *testing.T) {
	w := calmFleet(4, 2, nil)
	defer w.close()
	p, q := w.procs[0], w.procs[1]
	names := cellNames(50)
	w.serve(t, p, names...)
	p.vanish()
	w.run(w.t + 2*w.plan.ttl)
	got := spent(q, func() { w.serve(t, q, names...) })
	if want := (cost{"cell get": 50, "lease get": 1, "cell replace": 50}); !maps.Equal(got, want) {
		t.Errorf("50 takeovers cost %v, want %v", got, want)
	}
}
