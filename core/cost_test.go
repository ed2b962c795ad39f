package core_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenure-go/tenure/core"
)

// cost counts operations on the bucket (B1).
type cost struct{ readOwner, writeOwner, readLease, writeLease, list, probe int }

func (c *cost) count(e core.Effect) {
	switch e.(type) {
	case core.ReadOwner:
		c.readOwner++
	case core.WriteOwner:
		c.writeOwner++
	case core.ReadLease:
		c.readLease++
	case core.WriteLease:
		c.writeLease++
	case core.ListLeases:
		c.list++
	case core.Probe:
		c.probe++
	}
}

func (c cost) minus(o cost) cost {
	return cost{c.readOwner - o.readOwner, c.writeOwner - o.writeOwner, c.readLease - o.readLease, c.writeLease - o.writeLease, c.list - o.list, c.probe - o.probe}
}

// calmWorld is a fleet without any faults, that has run for a while.
func calmWorld(seed uint64, machines int, change func(*plan)) *world {
	w := newWorld(seed)
	w.calm = true
	w.plan.machines, w.plan.faults, w.plan.stamps = machines, 0, true
	c := &w.plan.cfg
	c.IdleAfter, c.FailoverWait, c.MaxCells, c.MaxActivations, c.MaxReleases = 0, 0, 0, 64, 64
	c.MaxQueue, c.MaxRoutes = 20000, 20000
	if change != nil {
		change(&w.plan)
	}
	for m := range machines {
		w.boot(m)
	}
	w.run(3 * ttl)
	return w
}

// serve sends requests for cells and lets all of them end.
func (w *world) serve(t *testing.T, p *proc, cells ...core.CellName) {
	t.Helper()
	var calls []*call
	for _, c := range cells {
		calls = append(calls, p.request(c, 20*ttl, false, false))
	}
	w.run(core.Time(len(cells))*20 + ttl)
	for _, c := range calls {
		if !c.begun {
			t.Fatalf("not served: %+v", *c)
		}
	}
	if w.bad != nil {
		t.Fatal(w.bad)
	}
}

func cellNames(prefix string, n int) []core.CellName {
	names := make([]core.CellName, n)
	for i := range names {
		names[i] = core.CellName(fmt.Sprintf("%s%d", prefix, i))
	}
	return names
}

// spent is what a process asks of the bucket during something, apart from its
// renewals.
func spent(p *proc, do func()) cost {
	before := p.did
	do()
	c := p.did.minus(before)
	c.writeLease = 0
	return c
}

// A node's steady cost is one lease write per renewal, however many cells it
// owns, and it is left alone in between.
func TestCostOfIdleCells(t *testing.T) {
	for _, cells := range []int{0, 10000} {
		w := calmWorld(1, 1, nil)
		p := w.procs[0]
		for batch := range slices.Chunk(cellNames("c", cells), 250) {
			w.serve(t, p, batch...)
		}
		w.run(p.s.AuthorityEnds() - p.clock() - 1) // any time will do
		const renewals = 30
		before, steps := p.did, w.stats.steps
		w.run(renewals * (w.plan.cfg.Renew + 1))
		got := p.did.minus(before)
		if got.writeLease < renewals-3 || got.writeLease > renewals+3 {
			t.Errorf("with %d cells: %d lease writes in %d renewal intervals", cells, got.writeLease, renewals)
		}
		if got.writeLease = 0; got != (cost{}) {
			t.Errorf("with %d idle cells the node also did %+v", cells, got)
		}
		if n := w.stats.steps - steps; n > 3*renewals {
			t.Errorf("with %d idle cells: %d steps in %d renewal intervals", cells, n, renewals)
		}
		if owned := p.s.Counts().Owned; owned != cells {
			t.Errorf("owns %d cells, want %d", owned, cells)
		}
	}
}

func TestCostOfACell(t *testing.T) {
	w := calmWorld(2, 2, nil)
	p, q := w.procs[0], w.procs[1]
	check := func(what string, got, want cost) {
		t.Helper()
		if got != want {
			t.Errorf("%s cost %+v, want %+v", what, got, want)
		}
	}
	check("the first claim", spent(p, func() { w.serve(t, p, "a") }), cost{readOwner: 1, writeOwner: 1})
	check("a warm request", spent(p, func() { w.serve(t, p, "a") }), cost{})
	check("the first forward", spent(q, func() { w.serve(t, q, "a") }), cost{readOwner: 1, readLease: 1})
	check("a warm forward", spent(q, func() { w.serve(t, q, "a") }), cost{})
	check("its owner's part", spent(p, func() { w.serve(t, q, "a") }), cost{})
	check("a release", spent(p, func() { p.post(core.Evict{Cell: "a"}); w.run(ttl) }), cost{writeOwner: 1})
	check("a released cell elsewhere", spent(q, func() { w.serve(t, p, "b"); w.serve(t, q, "c") }), cost{readOwner: 1, writeOwner: 1})
}

func TestCostOfATakeover(t *testing.T) {
	w := calmWorld(3, 2, nil)
	p, q := w.procs[0], w.procs[1]
	w.serve(t, p, cellNames("c", 60)...)
	q.forgetAll(w) // as if q had just come
	p.dead = true
	w.run(2*ttl + ttl/2)
	q = w.procs[1]
	first := spent(q, func() { w.serve(t, q, "c0") })
	if first != (cost{readOwner: 1, readLease: 1, writeOwner: 1}) {
		t.Errorf("the first takeover cost %+v", first)
	}
	next := spent(q, func() { w.serve(t, q, "c1") })
	if next != (cost{readOwner: 1, writeOwner: 1}) {
		t.Errorf("the next takeover from the same node cost %+v", next)
	}
}

// forgetAll replaces nothing but makes sure that the process knows no peer.
func (p *proc) forgetAll(w *world) {
	w.procs[1].dead = true
	w.procs = w.procs[:1]
	w.boot(1)
	w.run(2 * ttl)
}

func TestCellsOfOneDeadOwnerShareTheReads(t *testing.T) {
	w := calmWorld(4, 2, nil)
	p, q := w.procs[0], w.procs[1]
	names := cellNames("c", 50)
	w.serve(t, p, names...)
	p.dead = true
	w.run(2 * ttl)
	got := spent(q, func() { w.serve(t, q, names...) })
	if want := (cost{readOwner: 50, readLease: 1, writeOwner: 50}); got != want {
		t.Errorf("50 takeovers cost %+v, want %+v", got, want)
	}
}
