package sim

import (
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// finale: with no more faults every request is served (L2), and a fleet that
// nobody asks anything does nothing but renew (B1).
func (w *world) finale() {
	ttl := w.plan.ttl
	w.run(w.t + 5*ttl)
	w.round(false)
	w.run(w.t + 3*ttl)
	w.round(true)
	w.handOver()
	w.rest()
}

// sample is at most so many cells.
const sample = 12

// round has every node asked for some cells, one after another.
func (w *world) round(must bool) {
	for i := range min(w.cfg.Cells, sample) {
		name := w.cell(i * w.cfg.Cells / min(w.cfg.Cells, sample))
		for _, m := range w.machines {
			p := m.proc
			if w.bad != nil || p == nil || p.over || p.state == nil || p.state.Draining() || !p.state.Held() {
				continue
			}
			if must && !p.questioned[name] {
				continue // it is new, and may have to watch a dead owner first
			}
			p.questioned[name] = true
			a := p.request(name, 2*w.plan.ttl, false, false)
			w.await(a, 2*w.plan.ttl*21/20) // by whatever clock
			if !a.settled && !p.dead {
				w.violated("L1", "%s gave no answer for %s within its time", p.name, name)
			}
			if must && !a.begun && !p.dead && !w.excused(p, name, a) {
				w.violated("L2", "%s did not serve %s once all was calm: %+v", p.name, name, a.failure)
			}
		}
	}
}

// await lets the world go on until a request has its end.
func (w *world) await(a *ask, most int64) {
	for until := w.t + most; w.bad == nil && !a.settled && w.t < until; {
		w.run(min(until, w.t+100*millisecond))
	}
}

// handOver judges L3: a released cell is served again within two round trips to the
// bucket, by whoever is asked.
func (w *world) handOver() {
	for i := range min(w.cfg.Cells, sample) {
		name := w.cell(i * w.cfg.Cells / min(w.cfg.Cells, sample))
		from, key := w.owns(name), wire.OwnerKey(name)
		if from == nil || w.plan.maxCells > 0 || w.store.spoiled[key] {
			continue
		}
		from.start(func() { from.n.Evict(name) })
		w.run(w.t + w.plan.ttl/4)
		p := w.procs[i%len(w.procs)]
		if w.owns(name) != nil || p.over || p.state == nil || !p.state.Held() || p.state.Draining() {
			continue
		}
		before := w.store.asked[key]
		a := p.request(name, w.plan.ttl, false, false)
		w.await(a, w.plan.ttl*21/20)
		if n := w.store.asked[key] - before; w.bad == nil && !p.dead && (!a.begun || n > 2) {
			w.violated("L3", "%s, which was released, took %s %d round trips, served %v: %+v", name, p.name, n, a.begun, a.failure)
		}
		return
	}
}

// owns is the process that may serve a cell now; nil: none.
func (w *world) owns(cell core.CellName) *proc {
	for _, p := range w.procs {
		if _, may := p.mayServe(cell); may {
			return p
		}
	}
	return nil
}

// excused: an operator broke the cell's record, or its owner's lease; or the
// owner speaks another protocol.
func (w *world) excused(p *proc, cell core.CellName, a *ask) bool {
	key := wire.OwnerKey(cell)
	if w.store.spoiled[key] {
		if a.failure.Code != core.CodeBadRecord && a.failure.Code != core.CodePeerIncompatible {
			w.violated("records", "%s has no usable record, and a request for it failed with %+v", cell, a.failure)
		}
		return true
	}
	if q := w.byID[a.failure.Node]; a.failure.Code == core.CodePeerIncompatible && q != nil && q.contact.Protocol != p.contact.Protocol {
		return true
	}
	obj, err := w.store.mem.Get(w.background(), key)
	if err != nil {
		return false
	}
	o, err := wire.DecodeOwner(obj.Body)
	return err == nil && w.store.spoiled[wire.LeaseKey(o.Node)]
}

// rest counts what a fleet does that nobody asks anything.
func (w *world) rest() {
	ttl := w.plan.ttl
	w.run(w.t + ttl)
	before := map[*proc]map[string]int{}
	for _, p := range w.procs {
		if !p.over && p.state != nil && p.state.Held() && !p.state.Draining() {
			before[p] = nil // which is long enough up
		}
	}
	w.run(w.t + 4*ttl + int64(w.plan.idleAfter))
	at := w.t
	for p := range before {
		before[p] = copied(p.watch.asks)
	}
	w.run(w.t + 12*ttl)
	for _, m := range w.machines {
		if p := m.proc; p != nil && before[p] != nil && !p.over && w.bad == nil {
			w.judgeRest(p, before[p], w.t-at)
		}
	}
}

func (w *world) judgeRest(p *proc, before map[string]int, took int64) {
	for _, verb := range []string{"get", "create", "replace", "delete", "list"} {
		for _, c := range []string{"cell", "lease", "own"} {
			n, most := p.watch.asks[c+" "+verb]-before[c+" "+verb], 0
			if c == "own" && verb == "replace" {
				most = int(took*3*21/20/w.plan.ttl) + 2
			}
			if n > most {
				w.violated("B1", "%s asked the bucket %d times for %q in %d TTLs without a request", p.name, n, c+" "+verb, took/w.plan.ttl)
			}
		}
	}
	if n := len(p.parked) - 1; n > 1 { // the wait for its end, and perhaps one write of its lease
		w.violated("B1", "%s has %d things under way without a request", p.name, n)
	}
	if c := p.state.Counts(); c.Requests > 0 || c.Resolving > 0 || c.Leaving > 0 {
		w.violated("B1", "%s is busy without a request: %+v", p.name, c)
	}
	if c := p.state.Counts(); len(p.apps) != c.Owned || w.plan.idleAfter > 0 && c.Owned > 0 {
		w.violated("B1", "%s has %d cells active and owns %d, long after the last request", p.name, len(p.apps), c.Owned)
	}
}

func copied(m map[string]int) map[string]int {
	c := map[string]int{}
	for k, v := range m {
		c[k] = v
	}
	return c
}
