package core_test

import (
	"fmt"
	"hash/fnv"

	"github.com/tenure-go/tenure/core"
)

// store is the bucket: linearizable, conditional, with a clock of its own.
type store struct {
	w       *world
	objects map[string]object
	writes  int
	skew    core.Time // of its clock, which steps now and then
	stepped int64
	cached  core.Time // the Date it hands out, refreshed as often as it rounds
	// claims names who claimed a cell at an epoch, for S1.
	claims map[string]core.NodeID
}

type object struct {
	owner    core.Owner
	by       core.NodeID // who wrote the owner
	lease    core.Lease
	version  core.Version
	modified core.Time
}

func newStore(w *world) *store {
	return &store{w: w, objects: map[string]object{}, claims: map[string]core.NodeID{}}
}

func ownKey(c core.CellName) string { return "cells/" + string(c) }
func leaseKey(n core.NodeID) string { return "nodes/" + string(n) }

// stamp is the store's clock, rounded down.
func (b *store) stamp() core.Time {
	round := b.w.plan.cfg.Rounding
	at := core.Time(b.w.t/perUnit) + b.skew + 1_000_000_000
	return at / round * round
}

// date may be a cached stamp, which is then a little old.
func (b *store) date() core.Time {
	now := b.stamp()
	if b.cached > now || now-b.cached > b.w.plan.cfg.Rounding || b.w.rng.IntN(2) == 0 {
		b.cached = now
	}
	return b.cached
}

func (b *store) version(o object) core.Version {
	b.writes++
	if !b.w.plan.bodyETags {
		return core.Version(fmt.Sprintf("g%d", b.writes))
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v %+v", o.owner, o.lease)
	return core.Version(fmt.Sprintf("%x", h.Sum64()))
}

// put applies a conditional write, and judges it.
func (b *store) put(key string, o object, expect core.Version) (core.Version, bool) {
	old, is := b.objects[key]
	if is != (expect != "") || is && old.version != expect {
		return "", false
	}
	o.version, o.modified = b.version(o), b.stamp()
	if o.owner.Epoch > 0 {
		b.judge(key, old, o)
	}
	b.objects[key] = o
	b.w.logf("store %s = %+v %s", key, o.owner, o.version)
	return o.version, true
}

func (b *store) judge(key string, old, o object) {
	if o.owner.Node == "" {
		if old.owner.Node != o.by {
			b.w.violated("S6: %s released %s, which was %+v", o.by, key, old.owner)
		}
		if o.owner.Epoch != old.owner.Epoch {
			b.w.violated("S2: the release of %s changed %+v to %+v", key, old.owner, o.owner)
		}
		return
	}
	at := fmt.Sprintf("%s@%d", key, o.owner.Epoch)
	if was, is := b.claims[at]; is {
		b.w.violated("S1: %s claimed by %s and %s", at, was, o.owner.Node)
	}
	b.claims[at] = o.owner.Node
	if o.owner.Epoch != old.owner.Epoch+1 {
		b.w.violated("S2: %s went from %+v to %+v", key, old.owner, o.owner)
	}
}

// write carries a conditional write out, with all that can go wrong. done is
// called at most once; the core has its own deadline.
func (p *proc) write(key string, o object, expect core.Version, done func(core.WriteOutcome, core.Version, core.Stamps)) {
	w := p.w
	apply := func(at int64, answer bool) {
		w.in(at, func() {
			v, ok := w.bucket.put(key, o, expect)
			if ok && o.lease.Node != "" {
				p.leaseApplied(o.lease)
			}
			if !answer {
				return
			}
			st := w.stampsOf(o, false)
			outcome := core.Rejected
			if ok {
				outcome = core.Applied
			}
			w.in(w.delay(), func() { done(outcome, v, st) })
		})
	}
	switch {
	case o.lease.Node != "" && w.plan.edgy && expect != "" && w.chance(650):
		w.in(w.delay(), func() { done(core.NotApplied, "", core.Stamps{}) })
	case w.fault("contended"):
		w.in(w.delay(), func() { done(core.Contended, "", core.Stamps{}) })
	case w.fault("notapplied"):
		w.in(w.delay(), func() { done(core.NotApplied, "", core.Stamps{}) })
	case w.fault("lost"):
		p.ambiguous(done)
		if w.rng.IntN(2) == 0 {
			apply(w.delay(), false)
		}
	case w.fault("late"):
		p.ambiguous(done)
		apply(w.units(core.Time(w.rng.IntN(int(4*ttl)))), false)
	default:
		apply(w.delay(), true)
	}
}

// ambiguous answers so, or not at all.
func (p *proc) ambiguous(done func(core.WriteOutcome, core.Version, core.Stamps)) {
	if p.w.rng.IntN(2) == 0 {
		p.w.in(p.w.delay(), func() { done(core.Ambiguous, "", core.Stamps{}) })
	}
}

func (w *world) stampsOf(o object, found bool) core.Stamps {
	if !w.plan.stamps {
		return core.Stamps{}
	}
	return core.Stamps{Date: w.bucket.date(), HasDate: true, Modified: o.modified, HasModified: found}
}

// read samples an object, stamps the answer later, and delivers it later still.
func (p *proc) read(key string, done func(core.ReadOutcome, object, core.Stamps)) {
	w := p.w
	switch {
	case w.fault("readfail"):
		if w.rng.IntN(2) == 0 {
			w.in(w.delay(), func() { done(core.ReadFailed, object{}, core.Stamps{}) })
		}
		return
	case w.fault("badrecord") && w.rng.IntN(2) == 0:
		w.in(w.delay(), func() { done(core.BadRecord, object{}, core.Stamps{}) })
		return
	}
	slow := func() int64 {
		if w.plan.edgy && w.chance(500) {
			return w.units(core.Time(w.rng.IntN(150)))
		}
		return w.delay()
	}
	w.in(slow(), func() {
		o, is := w.bucket.objects[key]
		w.in(slow(), func() {
			st := w.stampsOf(o, is)
			w.in(slow(), func() {
				if is {
					done(core.Found, o, st)
				} else {
					done(core.Absent, object{}, st)
				}
			})
		})
	})
}

func (p *proc) WriteLease(e core.WriteLease) {
	if e.NotAfter != 0 && p.clock() > e.NotAfter {
		p.post(core.LeaseWritten{Op: e.Op, Outcome: core.NotApplied})
		return
	}
	p.write(leaseKey(e.Lease.Node), object{lease: e.Lease}, e.Expect, func(o core.WriteOutcome, v core.Version, st core.Stamps) {
		p.post(core.LeaseWritten{Op: e.Op, Outcome: o, Version: v, Stamps: st})
	})
}

func (p *proc) ReadLease(e core.ReadLease) {
	p.read(leaseKey(e.Node), func(o core.ReadOutcome, x object, st core.Stamps) {
		p.post(core.LeaseRead{Op: e.Op, Node: e.Node, Outcome: o, Lease: x.lease, Version: x.version, Stamps: st})
	})
}

func (p *proc) ListLeases(e core.ListLeases) {
	w := p.w
	if w.fault("readfail") {
		p.post(core.LeasesListed{Op: e.Op})
		return
	}
	w.in(w.delay(), func() {
		var ids []core.NodeID
		for i := range w.ids {
			id := core.NodeID(fmt.Sprintf("n%d", i+1))
			if _, is := w.bucket.objects[leaseKey(id)]; is {
				ids = append(ids, id)
			}
		}
		w.in(w.delay(), func() { p.post(core.LeasesListed{Op: e.Op, Nodes: ids}) })
	})
}

func (p *proc) ReadOwner(e core.ReadOwner) {
	p.read(ownKey(e.Cell), func(o core.ReadOutcome, x object, _ core.Stamps) {
		p.post(core.OwnerRead{Op: e.Op, Cell: e.Cell, Outcome: o, Owner: x.owner, Version: x.version})
	})
}

func (p *proc) WriteOwner(e core.WriteOwner) {
	if p.clock() > e.NotAfter {
		p.post(core.OwnerWritten{Op: e.Op, Cell: e.Cell, Outcome: core.NotApplied})
		return
	}
	p.write(ownKey(e.Cell), object{owner: e.Owner, by: p.s.Node()}, e.Expect, func(o core.WriteOutcome, v core.Version, _ core.Stamps) {
		p.post(core.OwnerWritten{Op: e.Op, Cell: e.Cell, Outcome: o, Version: v})
	})
}
