package core_test

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tenure-go/tenure/core"
)

// The world: a fleet of States, a bucket, clocks, a network and an application,
// all driven from one seed. Real time is in thousandths of the core's unit, so
// that what the clocks round away is far below what they may drift.

const perUnit = 1000

// Settings of every node in the world, in the core's unit.
const (
	ttl   = core.Time(3000)
	slack = core.Time(150)
)

type world struct {
	seed  uint64
	rng   *rand.Rand
	t     int64 // real time
	queue happenings
	seq   int

	plan   plan
	calm   bool // no more faults
	bucket *store
	procs  []*proc // that run, oldest first
	all    map[core.NodeID]*proc
	cut    map[[2]int]int64 // machines that cannot reach each other, until when
	storm  map[string]int64 // kinds of fault that are frequent until then
	ids    int
	begun  map[core.CellName]core.Epoch // highest epoch at which something began
	reqID  core.RequestID

	hash  uint64
	trace *strings.Builder // nil: not kept
	bad   error            // the first violation
	stats stats
}

type stats struct {
	steps, dispatched, answered, failed, fenced, takeovers, lates, ends int
	codes                                                               map[core.Code]int
}

// plan is what a seed fixes for its whole run.
type plan struct {
	machines   int
	cells      int
	faults     int // in a thousand operations
	length     core.Time
	stamps     bool // the store stamps its answers
	edgy       bool // leases are mostly renewed near their end, and read slowly
	bodyETags  bool // versions derive from the body
	cfg        core.Config
	chaosEvery core.Time
}

type happening struct {
	at  int64
	seq int
	do  func()
}

type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newWorld(seed uint64) *world {
	w := &world{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0x7e9e)),
		all: map[core.NodeID]*proc{}, cut: map[[2]int]int64{}, storm: map[string]int64{},
		begun: map[core.CellName]core.Epoch{}, hash: 14695981039346656037,
		stats: stats{codes: map[core.Code]int{}},
	}
	w.makePlan()
	w.bucket = newStore(w)
	return w
}

func (w *world) makePlan() {
	p := &w.plan
	p.machines = 2 + w.rng.IntN(3)
	p.cells = 1 + w.rng.IntN(6)
	p.faults = w.pick(0, 20, 60, 150, 300)
	p.length = ttl * core.Time(4+w.rng.IntN(14))
	p.stamps = w.rng.IntN(4) > 0
	p.edgy = w.rng.IntN(5) == 0
	p.bodyETags = w.rng.IntN(2) == 0
	p.chaosEvery = core.Time(w.pick(300, 800, 3000))
	p.cfg = core.Config{
		TTL: ttl, Slack: slack, Renew: ttl / 3, LeaseDeadline: ttl / 6, RetryStep: 20,
		OpDeadline: 400, DialDeadline: 300, ActivateDeadline: 500, DeactivateDeadline: 400,
		DrainDeadline: core.Time(w.pick(2000, 9000)), Rounding: 100, Allowance: 100,
		IdleAfter: core.Time(w.pick(0, 700, 6000)), FailoverWait: core.Time(w.pick(0, 0, 2000, 9000)),
		MaxCells: w.pick(0, 0, 1, 3), MaxActivations: w.pick(1, 2, 8), MaxReleases: w.pick(1, 4),
		MaxQueue: w.pick(4, 200), MaxRoutes: w.pick(2, 100), MaxPeers: 64, Protocol: 1,
	}
}

func (w *world) pick(of ...int) int { return of[w.rng.IntN(len(of))] }

// chance is true n times in a thousand, never once the world is calm.
func (w *world) chance(n int) bool { return !w.calm && w.rng.IntN(1000) < n }

// fault is chance at the plan's rate, higher during a storm of that kind.
func (w *world) fault(kind string) bool {
	if w.storm[kind] > w.t {
		return w.chance(900)
	}
	return w.chance(w.plan.faults / 3)
}

// delay is how long something takes, in real time.
func (w *world) delay() int64 {
	d := int64(1+w.rng.IntN(20)) * perUnit
	if w.chance(w.plan.faults / 4) {
		d = int64(w.rng.IntN(int(ttl))) * perUnit
	}
	return d + int64(w.rng.IntN(perUnit))
}

func (w *world) in(d int64, do func()) {
	w.seq++
	heap.Push(&w.queue, happening{w.t + d, w.seq, do})
}

func (w *world) units(d core.Time) int64 { return int64(d) * perUnit }

// run lets the world go on for a while, or until something is violated.
func (w *world) run(d core.Time) {
	end := w.t + w.units(d)
	for w.bad == nil && len(w.queue) > 0 && w.queue[0].at <= end {
		h := heap.Pop(&w.queue).(happening)
		w.t = h.at
		h.do()
	}
	w.t = max(w.t, end)
}

// violated keeps the first violation.
func (w *world) violated(format string, args ...any) {
	if w.bad == nil {
		w.bad = fmt.Errorf("at %d: %s", w.t, fmt.Sprintf(format, args...))
		w.logf("VIOLATION %v", w.bad)
	}
}

func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%10d ", w.t)
		fmt.Fprintf(w.trace, format, args...)
		w.trace.WriteByte('\n')
	}
}

func (w *world) mix(text string) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", w.hash, text)
	w.hash = h.Sum64()
}

// reaches: the network lets one machine talk to another.
func (w *world) reaches(a, b int) bool {
	return w.cut[[2]int{min(a, b), max(a, b)}] <= w.t
}

func (w *world) cell() core.CellName {
	return core.CellName(fmt.Sprintf("c%d", w.rng.IntN(w.plan.cells)))
}

// live picks a running process, nil if there is none.
func (w *world) live() *proc {
	if len(w.procs) == 0 {
		return nil
	}
	return w.procs[w.rng.IntN(len(w.procs))]
}

// boot starts a process on a machine, again and again as its predecessors end.
func (w *world) boot(machine int) {
	s, err := core.New(w.plan.cfg)
	if err != nil {
		panic(err)
	}
	p := &proc{
		w: w, s: s, machine: machine, reqs: map[core.RequestID]*call{},
		offset: core.Time(w.rng.IntN(100000)),
		// Nearly all that the protocol allows: slack per TTL.
		rate:    int64(w.rng.IntN(2*48500) - 48500),
		anchors: map[uint64]core.Time{},
	}
	if w.rng.IntN(3) == 0 {
		p.rate = int64(w.pick(-48500, 48500))
	}
	w.procs = append(w.procs, p)
	p.step(core.Start{})
}

// end takes a process away; another follows on its machine.
func (w *world) end(p *proc) {
	if p.dead {
		return
	}
	p.dead = true
	w.procs = slices.DeleteFunc(w.procs, func(q *proc) bool { return q == p })
	for _, c := range p.calls() {
		p.cancelDown(c)
		p.tellOrigin(c, core.ForwardBroken, core.Failure{Ran: true})
	}
	pause := w.units(core.Time(w.rng.IntN(int(2 * ttl))))
	w.in(pause, func() { w.boot(p.machine) })
}

// chaos does something bad now and then.
func (w *world) chaos() {
	if w.calm {
		return
	}
	w.in(int64(w.rng.IntN(int(2*w.units(w.plan.chaosEvery))))+1, w.chaos)
	p := w.live()
	if p == nil {
		return
	}
	until := w.t + w.units(core.Time(w.rng.IntN(int(ttl))))
	switch w.rng.IntN(12) {
	case 0:
		w.logf("%s crashes", p.s.Node())
		w.end(p)
	case 1, 2:
		p.pause(core.Time(w.rng.IntN(int(ttl) * 3 / 2)))
	case 3:
		a, b := w.rng.IntN(w.plan.machines), w.rng.IntN(w.plan.machines)
		w.cut[[2]int{min(a, b), max(a, b)}] = until
	case 4, 5:
		kind := []string{"contended", "lost", "late", "notapplied", "readfail", "badrecord"}[w.rng.IntN(6)]
		w.logf("storm of %s", kind)
		w.storm[kind] = until
	case 6:
		if w.t-w.bucket.stepped > 3*w.units(ttl) {
			w.bucket.stepped = w.t
			w.bucket.skew += core.Time((w.rng.IntN(2)*2 - 1) * (int(ttl) + w.rng.IntN(100*int(ttl))))
			w.logf("the store's clock steps")
		}
	case 7:
		if w.rng.IntN(3) == 0 {
			w.logf("%s: lease record deleted", p.s.Node())
			delete(w.bucket.objects, leaseKey(p.s.Node()))
		}
	case 8:
		if w.rng.IntN(2) == 0 {
			p.post(core.Drain{})
		}
	default:
		p.post(core.Evict{Cell: w.cell()})
	}
}

// traffic sends requests, for ever.
func (w *world) traffic() {
	if w.calm {
		return
	}
	w.in(int64(w.rng.IntN(400*perUnit)), w.traffic)
	for range 1 + w.rng.IntN(3) {
		if p := w.live(); p != nil {
			p.request(w.cell(), core.Time(w.pick(50, 1000, 4000, 12000)), w.rng.IntN(8) == 0, w.rng.IntN(2) == 0)
		}
	}
}
