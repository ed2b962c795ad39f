package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tenure-go/tenure/internal/wire"
)

// Kinds of faults, by the names that --faults takes.
const (
	kindCrash     = "crash"          // a process dies, at any step; another follows at its address
	kindPause     = "pause"          // a process, or one thread of it, is stopped for a while
	kindSlow      = "slow"           // requests and replies of the bucket take long
	kindLost      = "lost"           // a request to the bucket, or its reply, is lost
	kindLate      = "late"           // a write lands long after its caller gave up
	kindRefused   = "refused"        // the bucket refuses, certainly without effect
	kindThrottled = "throttled"      // 429 and 503
	kindContended = "contended"      // 409: another write was under way
	kindCut       = "cut"            // the bucket is out of reach of some nodes
	kindPeers     = "peers"          // peers are cut off from each other, one way or both
	kindIsolated  = "isolated"       // both, first the one, then the other
	kindBlind     = "blind"          // a node can read nobody's lease, or nobody's ownership
	kindEdge      = "edge"           // renewals land late in the authority, and leases are read slowly
	kindWall      = "wall"           // a wall clock is off by hours, and steps
	kindStore     = "store-clock"    // the store's own clock steps
	kindRates     = "rates"          // monotonic clocks run at their bound; fixed by the seed, without a number
	kindLease     = "lease-deleted"  // an operator deletes a lease record
	kindBadLease  = "lease-corrupt"  // or writes something else there
	kindBadOwner  = "record-corrupt" // or an ownership record that lacks a field
	kindDrain     = "drain"          // a node is told to drain
	kindEvict     = "evict"          // cells are asked to leave
	kindHooks     = "hooks"          // the application's hooks fail, or hang
	kindHangup    = "hangup"         // clients leave
	kindRenewals  = "renewals"       // half a TTL of lease traffic fails: the schedule that L4 is judged in
)

// weights is how often each kind is drawn.
var weights = []struct {
	kind   string
	weight int
}{
	{kindCrash, 8}, {kindPause, 24}, {kindSlow, 8}, {kindLost, 8}, {kindLate, 8}, {kindRefused, 4},
	{kindThrottled, 3}, {kindContended, 4}, {kindCut, 6}, {kindPeers, 8}, {kindIsolated, 16}, {kindBlind, 5},
	{kindEdge, 14}, {kindWall, 3}, {kindStore, 3}, {kindLease, 2}, {kindBadLease, 1}, {kindBadOwner, 1},
	{kindDrain, 4}, {kindEvict, 8}, {kindHooks, 4}, {kindHangup, 4},
}

// Kinds are all names of faults.
func Kinds() []string {
	kinds := []string{kindRates, kindRenewals}
	for _, x := range weights {
		kinds = append(kinds, x.kind)
	}
	slices.Sort(kinds)
	return kinds
}

// Fault is one planned fault.
type Fault struct {
	N       int
	Kind    string
	At, For time.Duration
	Machine int // -1: all
}

func (f Fault) String() string {
	where := fmt.Sprintf("on machine %d", f.Machine)
	if f.Machine < 0 {
		where = "on all machines"
	}
	return fmt.Sprintf("%d: %s %s at %s for %s", f.N, f.Kind, where, f.At.Round(time.Millisecond), f.For.Round(time.Millisecond))
}

// fault is one with all that it draws.
type fault struct {
	Fault
	other int   // another machine
	mode  int   // a number that tells variants of the kind apart
	odds  int   // in a thousand
	stage int64 // after which the second part of it begins
	// aims: the second part of an isolation waits until somebody has seen the
	// lease just after it was renewed: from then on its holder and its observers
	// count alike.
	aims  bool
	held  []func() // readings of the lease that wait for that
	draw  uint64   // seed of its own rolls
	rolls uint64
}

// roll is true as often as the fault's odds say.
func (f *fault) roll(odds int) bool { return f.number(1000) < odds }

// number draws from 0 to n-1, from nothing but the fault itself.
func (f *fault) number(n int) int {
	f.rolls++
	return int(mix(f.draw, f.rolls) % uint64(n))
}

func (f *fault) on(m *machine) bool { return f.Machine < 0 || f.Machine == m.n }

func (w *world) enabled(kind string) bool {
	return w.cfg.Faults == nil || slices.Contains(w.cfg.Faults, kind)
}

// planFaults begins the list of faults: each plans the next one, and whether it
// happens changes nothing for those that follow.
func (w *world) planFaults() { w.planFault(1, 0) }

func (w *world) planFault(n int, after int64) {
	f := w.drawFault(n)
	at := after + int64(f.At)
	if at >= int64(w.cfg.For) {
		return
	}
	f.At = time.Duration(at)
	w.in(at-w.t, func() {
		w.planFault(n+1, at)
		if w.enabled(f.Kind) && (w.cfg.Only == nil || slices.Contains(w.cfg.Only, n)) {
			w.happen(f)
		}
	})
}

// drawFault draws a fault; its At is the time since the one before.
func (w *world) drawFault(n int) *fault {
	var d digest
	d.number(w.cfg.Seed)
	d.number(uint64(n))
	r := rand.New(rand.NewPCG(d.sum, 0xfa))
	f := &fault{Fault: Fault{N: n}, draw: r.Uint64()}
	f.Kind = drawKind(r)
	f.At = time.Duration(r.ExpFloat64() * float64(w.plan.gap))
	f.For = time.Duration(r.Int64N(w.plan.ttl * 3 / 2))
	f.Machine, f.other = r.IntN(w.cfg.Nodes), r.IntN(w.cfg.Nodes)
	f.mode = r.IntN(1 << 20)
	f.odds = pick(r, 50, 200, 500, 1000)
	f.stage = r.Int64N(w.plan.ttl)
	if r.IntN(2) == 0 {
		f.stage = 0
	}
	f.aims = r.IntN(2) == 0 && f.Kind == kindIsolated
	if f.Kind == kindEdge || f.Kind == kindIsolated {
		f.For += time.Duration(w.plan.ttl)
	}
	if r.IntN(4) == 0 && broad[f.Kind] {
		f.Machine = -1
	}
	if w.plan.leaseOnly { // once in a while, and nothing else
		f.Kind, f.At = kindRenewals, time.Duration(w.plan.ttl*3/2+r.Int64N(w.plan.ttl))
		f.For = time.Duration(w.plan.ttl / 2)
	}
	return f
}

// broad kinds may strike all machines at once.
var broad = map[string]bool{
	kindSlow: true, kindLost: true, kindLate: true, kindRefused: true, kindThrottled: true, kindContended: true,
	kindBlind: true, kindCut: true, kindHooks: true,
}

func drawKind(r *rand.Rand) string {
	total := 0
	for _, x := range weights {
		total += x.weight
	}
	n := r.IntN(total)
	for _, x := range weights {
		if n -= x.weight; n < 0 {
			return x.kind
		}
	}
	panic("unreachable")
}

// happen makes a fault happen: at once, or for as long as it lasts.
func (w *world) happen(f *fault) {
	w.happened = append(w.happened, f.Fault)
	w.stats.Faults++
	w.logf("fault %s", f.Fault)
	if w.cfg.Judge != nil {
		if err := w.cfg.Judge(w.happened); err != nil {
			w.violated("judge", "%v", err)
		}
	}
	if w.atOnce(f) {
		return
	}
	w.active = append(w.active, f)
	w.in(int64(f.For), func() { w.subside(f) })
}

func (w *world) subside(f *fault) {
	f.release()
	w.active = slices.DeleteFunc(w.active, func(o *fault) bool { return o == f })
}

// atOnce carries out faults that are one act; false if it lasts.
func (w *world) atOnce(f *fault) bool {
	p := (*proc)(nil)
	if f.Machine >= 0 {
		p = w.machines[f.Machine].proc
	}
	switch f.Kind {
	case kindCrash, kindPause:
		if p != nil {
			p.strike(f)
		}
	case kindWall:
		w.machines[f.Machine].wall += int64(f.number(8*3600)-4*3600) * second
	case kindStore:
		w.store.step(f)
	case kindLease, kindBadLease:
		w.store.spoilLease(f, p)
	case kindBadOwner:
		w.store.spoilOwner(f)
	case kindDrain:
		if p != nil {
			p.start(func() { p.n.Drain() })
		}
	case kindEvict:
		w.evict(f, p)
	default:
		return false
	}
	return true
}

// evict asks a process to give up a few of the cells that it owns.
func (w *world) evict(f *fault, p *proc) {
	for range min(w.cfg.Cells, 1+f.number(5)) {
		cell := w.cell(w.clients.someCell(f.number, w))
		if p != nil {
			p.start(func() { p.n.Evict(cell) })
		}
	}
}

// struck returns the active fault of a kind on a machine, nil if there is none.
func (w *world) struck(m *machine, kinds ...string) *fault {
	for _, f := range w.active {
		if f.on(m) && slices.Contains(kinds, f.Kind) {
			return f
		}
	}
	return nil
}

// aimed is the fault that waits for a reading of the lease of that machine's
// process; nil: none does.
func (w *world) aimed(key string) *fault {
	for _, f := range w.active {
		if f.aims && f.Machine >= 0 {
			if p := w.machines[f.Machine].proc; p != nil && wire.LeaseKey(p.id()) == key {
				return f
			}
		}
	}
	return nil
}

// release lets the readings go on that were held back.
func (f *fault) release() {
	held := f.held
	f.held, f.aims = nil, false
	for _, read := range held {
		read()
	}
}

// separated: nothing gets from one machine to another just now.
func (w *world) separated(from, to *machine) bool {
	for _, f := range w.active {
		switch f.Kind {
		case kindEdge, kindIsolated:
			if f.Kind == kindEdge && f.mode%4 == 0 {
				continue
			}
			if (f.on(from) || f.on(to)) && from != to {
				return true
			}
		case kindPeers:
			a, b := f.Machine == from.n && f.other == to.n, f.Machine == to.n && f.other == from.n
			if a || b && f.mode%3 > 0 { // one way only, in a third
				return true
			}
		}
	}
	return false
}

// calmDown ends all faults.
func (w *world) calmDown() {
	w.calm = true
	for _, f := range w.active {
		f.release()
	}
	w.active = nil
	for _, m := range w.machines {
		if p := m.proc; p != nil {
			p.strikes = nil
			p.thaw()
		}
	}
}
