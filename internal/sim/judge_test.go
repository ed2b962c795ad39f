package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
	"github.com/tenure-go/tenure/node"
)

// owner is a process that owns a cell, and the cell's record.
func owner(w *world) (*proc, core.CellName, core.Owner) {
	for i := range w.cfg.Cells {
		for _, p := range w.procs {
			if epoch, may := p.mayServe(w.cell(i)); may {
				return p, w.cell(i), core.Owner{Node: p.id(), Epoch: epoch}
			}
		}
	}
	panic("nobody owns anything")
}

// other is a process that is not p.
func other(w *world, p *proc) *proc {
	for _, q := range w.procs {
		if q != p {
			return q
		}
	}
	panic("there is no other")
}

// forge has a process write an ownership record, whatever is there.
func forge(w *world, p *proc, cell core.CellName, o core.Owner) {
	key := wire.OwnerKey(cell)
	obj, err := w.store.mem.Get(context.Background(), key)
	if err != nil {
		panic(err)
	}
	v := obj.Version
	if w.plan.bodyVersions {
		v = bodyVersion(obj.Body)
	}
	if err := w.store.write(&op{p: p, class: classCell, verb: "replace", key: key, body: wire.EncodeOwner(o), version: v}); err != nil {
		panic(err)
	}
}

// meddles break what the judges watch, behind the nodes' backs.
var meddles = []struct {
	property string
	do       func(w *world)
}{
	{"S1", func(w *world) {
		p, cell, o := owner(w)
		forge(w, other(w, p), cell, core.Owner{Node: p.id(), Epoch: o.Epoch + 1})
	}},
	{"S2", func(w *world) {
		p, cell, o := owner(w)
		forge(w, p, cell, core.Owner{Node: p.id(), Epoch: o.Epoch + 2})
	}},
	{"S2", func(w *world) {
		p, cell, o := owner(w)
		forge(w, p, cell, core.Owner{Epoch: o.Epoch + 1})
	}},
	{"S3", func(w *world) { // somebody else began later
		for i := range w.cfg.Cells {
			w.begun[w.cell(i)] = 1000
		}
	}},
	{"S3", func(w *world) { // two at once
		p, cell, o := owner(w)
		other(w, p).mayBegin(cell, o.Epoch+1, "a dispatch")
	}},
	{"S3", func(w *world) { // without authority
		p, cell, o := owner(w)
		p.offset += core.Time(w.plan.ttl)
		p.mayBegin(cell, o.Epoch, "a dispatch")
	}},
	{"S5", func(w *world) {
		for _, p := range w.procs {
			p.watch.applied -= core.Time(w.plan.ttl)
		}
	}},
	{"S6", func(w *world) {
		p, cell, o := owner(w)
		forge(w, other(w, p), cell, core.Owner{Epoch: o.Epoch})
	}},
	{"L1", func(w *world) { // a request that no core knows of
		p, _, _ := owner(w)
		p.watch.open = append(p.watch.open, &pending{arrive: core.Arrive{ID: 1 << 40, Deadline: p.showing()}})
	}},
	{"L2", func(w *world) { // the bucket stays out of reach for some
		f := &fault{Fault: Fault{Kind: kindPeers, Machine: 0}, other: 1, mode: 1}
		w.in(int64(w.cfg.For)-w.t+1, func() { w.active = append(w.active, f) })
	}},
	{"L3", func(w *world) { // somebody asks the bucket without end
		keys := w.store.asked
		var ask func()
		ask = func() {
			for key := range keys {
				keys[key]++
			}
			w.in(millisecond, ask)
		}
		w.in(int64(w.cfg.For)-w.t, ask)
	}},
	{"L4", func(w *world) {
		p, _, _ := owner(w)
		p.watch.judgeFence(core.ReasonMissing)
	}},
	{"L4", func(w *world) { // before its time
		p, _, _ := owner(w)
		p.watch.open = nil
		p.watch.end(node.Decision{State: p.state, Now: p.showing()}, core.End{Reason: core.ReasonExpired})
	}},
	{"S7", func(w *world) { // after its tombstone
		p, cell, o := owner(w)
		p.watch.tombed = true
		p.mayBegin(cell, o.Epoch, "a dispatch")
	}},
	{"drain", func(w *world) {
		p, cell, o := owner(w)
		p.start(func() { p.n.Drain() })
		p.watch.writeOwner(core.WriteOwner{Cell: cell, Owner: core.Owner{Node: p.id(), Epoch: o.Epoch + 1}, Expect: "v"})
	}},
	{"hooks", func(w *world) { // released before the application has let go
		p, cell, o := owner(w)
		p.watch.writeOwner(core.WriteOwner{Cell: cell, Owner: core.Owner{Epoch: o.Epoch}, Expect: "v"})
	}},
	{"takeover", func(w *world) { // of a record that names somebody who lives
		p, cell, o := owner(w)
		q := other(w, p)
		forge(w, q, cell, core.Owner{Node: q.id(), Epoch: o.Epoch + 1})
	}},
	{"records", func(w *world) { // only probes are deleted
		p, cell, _ := owner(w)
		p.start(func() { _ = handle{p: p}.Delete(context.Background(), wire.OwnerKey(cell)) })
	}},
	{"B1", func(w *world) { // an application that was not told
		p, _, _ := owner(w)
		p.apps["left"] = &app{}
	}},
	{"B1", func(w *world) {
		p, cell, _ := owner(w)
		var ask func()
		ask = func() {
			p.start(func() { _, _, _ = p.n.Owner(context.Background(), cell) })
			w.in(second, ask)
		}
		ask()
	}},
	{"takeover", func(w *world) {
		p, _, _ := owner(w)
		w.judgeVerdict(other(w, p), core.LeaseRead{Node: p.id()})
	}},
	{"time", func(w *world) { // a step that took another time than the one it is
		p, _, _ := owner(w)
		p.traced(node.Decision{State: p.state, Now: p.showing() - 1, Event: core.Tick{}})
	}},
	{"records", func(w *world) {
		p, cell, o := owner(w)
		w.store.spoiled[wire.OwnerKey(cell)] = true
		forge(w, p, cell, core.Owner{Epoch: o.Epoch})
	}},
	{"linearizability", func(w *world) {
		w.in(int64(w.cfg.For)-w.t, func() {
			for _, rs := range w.history.cells {
				for _, r := range rs {
					r.prior += 1000
				}
			}
		})
	}},
	{"linearizability", func(w *world) { // an answer of an older epoch, after one of a newer
		w.in(int64(w.cfg.For)-w.t, func() {
			h := &w.history
			for range 2 {
				h.begin("c0", w.t).executed = true
			}
			rs := h.cells["c0"]
			a, b := rs[len(rs)-2], rs[len(rs)-1]
			a.epoch, a.acked, b.called, b.epoch, b.acked = 1001, w.t+1, w.t+2, 1000, w.t+3
		})
	}},
	{"once", func(w *world) {
		r := w.history.begin("c0", w.t)
		p, _, _ := owner(w)
		(&app{epoch: 1}).run(w, r, p)
		(&app{epoch: 1}).run(w, r, p)
	}},
	{"hooks", func(w *world) {
		for _, p := range w.procs {
			clear(p.apps)
		}
	}},
}

// Each judge fires, and none does where nothing is wrong.
func TestJudgesFire(t *testing.T) {
	cfg := short(3, 12*time.Second)
	cfg.Faults, cfg.Rate = []string{}, 40
	for p := newWorld(cfg).plan; p.maxCells > 0 || p.idleAfter > 0; p = newWorld(cfg).plan {
		cfg.Seed++ // cells stay where they are
	}
	if r := Run(cfg); r.Violation != nil {
		t.Fatalf("without any fault: %v", r.Violation)
	}
	for i, m := range meddles {
		w := newWorld(cfg)
		w.in(8*second, func() { m.do(w) })
		r := w.live()
		if r.Violation == nil || !strings.HasPrefix(r.Violation.Property, m.property) {
			t.Errorf("%d: %s did not fire: %v", i, m.property, r.Violation)
		}
	}
}
