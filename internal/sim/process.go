package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"

	"time"
)

// proc is one process: a node, its clock, its application, and what runs of it.
type proc struct {
	w     *world
	m     *machine
	n     *node.Node
	name  string
	rng   *rand.Rand
	state *core.State // as of the last step; nil before the first

	offset  core.Time
	rate    rate
	contact core.Contact

	dead    bool  // gone
	over    bool  // its session is
	stopped int64 // until when it is stopped
	strikes []*strike
	poking  bool
	// resuming: what was under way goes on before what has come since.
	resuming bool

	parked   []*co
	starting []func()

	apps    map[core.CellName]*app
	inbound []*hop
	watch   watch

	questioned map[core.CellName]bool // in the first round of the finale
}

// strike is a crash or a stop that waits for its place in the process.
type strike struct {
	kind  string
	place int // placeX
	count int // it strikes the count-th time that this place is reached
	span  int64
}

const (
	placeNow     = iota
	placeReading // where the clock is read, the whole process
	placeStep    // before anything in it goes on
	placeThread  // where the clock is read, that thread alone
	placeAct     // between the decision to begin or to write something, and the act
)

// striking is where strikes are aimed, the rarer places more often.
var striking = []int{placeNow, placeReading, placeStep, placeThread, placeThread, placeAct, placeAct}

// strike aims a fault at a place in the process.
func (p *proc) strike(f *fault) {
	s := &strike{kind: f.Kind, place: striking[f.mode%len(striking)], count: 1 + f.number(1+f.number(30)), span: int64(f.For)}
	if f.Kind == kindPause && f.number(4) == 0 {
		s.span = int64(f.number(int(p.w.plan.slack * 2)))
	}
	switch s.place {
	case placeNow:
		p.hit(s)
		return
	case placeAct:
		s.count = 1 + f.number(3)
	}
	p.strikes = append(p.strikes, s)
}

// due takes the strike whose turn it is at a place of one of these kinds.
func (p *proc) due(places ...int) *strike {
	for i, s := range p.strikes {
		if !slices.Contains(places, s.place) {
			continue
		}
		if s.count--; s.count <= 0 {
			p.strikes = slices.Delete(p.strikes, i, i+1)
			return s
		}
	}
	return nil
}

// hit carries a strike out.
func (p *proc) hit(s *strike) {
	if s.kind == kindCrash {
		p.w.logf("%s crashes", p.name)
		p.end()
		return
	}
	p.w.logf("%s stops for %s", p.name, time.Duration(s.span))
	p.stopped = p.w.t + s.span
	p.w.in(s.span, p.thaw)
}

func (p *proc) thaw() {
	if p.w.calm {
		p.stopped = 0
	}
	p.resuming = p.rng.IntN(2) == 0
	p.poke()
}

// stops reports whether nothing of the process may go on.
func (p *proc) stops() bool {
	if p.w.t < p.stopped {
		return true
	}
	if len(p.strikes) > 0 {
		if s := p.due(placeStep); s != nil {
			p.hit(s)
			return p.dead || p.w.t < p.stopped
		}
	}
	return false
}

// reading is where the clock is about to be read.
func (p *proc) reading() {
	if len(p.strikes) == 0 || p.dead || p.w.current == nil {
		return
	}
	s := p.due(placeReading, placeThread)
	switch {
	case s == nil:
	case s.kind == kindPause && s.place == placeThread:
		p.w.logf("%s: a thread stops for %s", p.name, time.Duration(s.span))
		p.sleep(s.span, func() bool { return p.w.calm })
	default:
		p.stopHere(s)
	}
}

// stopHere stops or ends the process where the coroutine stands that runs now.
func (p *proc) stopHere(s *strike) {
	p.hit(s)
	if s.kind == kindCrash {
		panic(killed{})
	}
	p.park(func() bool { return true })
}

// deciding is where something was decided, and is not begun yet.
func (p *proc) deciding(effects []core.Effect) {
	if len(p.strikes) == 0 || p.dead || p.w.current == nil {
		return
	}
	for _, e := range effects {
		switch e.(type) {
		case core.Dispatch, core.Answer, core.WriteOwner, core.WriteLease:
			if s := p.due(placeAct); s != nil {
				p.stopHere(s)
			}
			return
		}
	}
}

// boot starts a process on a machine.
func (w *world) boot(m *machine) {
	if m.proc != nil {
		return
	}
	m.boots++
	w.stats.Boots++
	name := fmt.Sprintf("m%d", m.n)
	p := &proc{
		w: w, m: m, name: fmt.Sprintf("%s.%d", name, m.boots), rate: m.rate,
		rng:  stream(w.cfg.Seed, fmt.Sprintf("process %d %d", m.n, m.boots)),
		apps: map[core.CellName]*app{}, questioned: map[core.CellName]bool{},
	}
	p.offset = core.Time(p.rng.Int64N(1000 * second))
	p.contact = core.Contact{Addr: m.addr, Key: fmt.Sprintf("%064x", p.rng.Uint64()), Protocol: 1}
	if p.rng.IntN(100) == 0 && w.enabled(kindPeers) {
		p.contact.Protocol = 2
	}
	p.watch.init(p)
	n, err := node.New(p.config(name))
	if err != nil {
		panic(err)
	}
	p.n, m.proc = n, p
	w.procs = append(w.procs, p)
	w.logf("%s boots", p.name)
	p.start(n.Start)
	p.start(p.awaitEnd)
}

func (p *proc) config(name string) node.Config {
	cfg := node.Config{
		Cells: handle{p: p}, Lease: handle{p: p, own: true}, Leases: handle{p: p},
		Name: name, Contact: p.contact, Probe: p.probe, Host: host{p},
		Log: slog.New(slog.DiscardHandler), Clock: clock{p}, Wall: p.wall, Random: randomness(p.rng),
		Go: p.start, Trace: p.traced, Park: p.park,
	}
	p.w.plan.apply(&cfg)
	return cfg
}

// randomness is for ids.
func randomness(r *rand.Rand) io.Reader {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(r.Uint32())
	}
	return rand.NewChaCha8(seed)
}

func (p *proc) wall() time.Time {
	return storeEpoch.Add(time.Duration(p.w.t + p.m.wall))
}

func (p *proc) id() core.NodeID {
	if p.state == nil {
		return ""
	}
	return p.state.Node()
}

// awaitEnd ends the process a little after its session.
func (p *proc) awaitEnd() {
	p.park(func() bool { return isClosed(p.n.Done()) })
	p.over = true
	p.sleep(p.rng.Int64N(second), nil)
	p.end()
	panic(killed{})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// end takes the process away; another follows on its machine.
func (p *proc) end() {
	if p.dead {
		return
	}
	w := p.w
	p.dead, p.m.proc = true, nil
	w.procs = slices.DeleteFunc(w.procs, func(q *proc) bool { return q == p })
	for _, h := range p.inbound {
		h.breakOff(p)
	}
	p.killAll()
	pause := p.rng.Int64N(2 * w.plan.ttl)
	if p.rng.IntN(3) == 0 {
		pause = p.rng.Int64N(second)
	}
	w.in(pause, func() { w.boot(p.m) })
}

// mayServe reports whether the process could begin something for a cell at this
// instant, as far as its state and its clock go.
func (p *proc) mayServe(cell core.CellName) (core.Epoch, bool) {
	if p.dead || p.over || p.state == nil || !p.state.Held() || p.showing() >= p.state.AuthorityEnds() {
		return 0, false
	}
	v, _ := p.state.Cell(cell)
	return v.Epoch, v.Phase == "owned"
}

// probe implements node.Config.Probe.
func (p *proc) probe(ctx context.Context, id core.NodeID, c core.Contact) error {
	p.watch.asks["probe"]++
	w, done, ok := p.w, false, false
	finish := func(from *proc) {
		if from != nil && !w.separated(from.m, p.m) {
			ok = from.id() == id && from.contact.Key == c.Key && !from.dead
			done = true
			p.poke()
		}
	}
	w.in(leg(p.rng), func() {
		m := w.machineAt(c.Addr)
		if m == nil || w.separated(p.m, m) {
			return
		}
		q := m.proc
		switch {
		case q == nil: // refused
			w.in(leg(p.rng), func() { done = true; p.poke() })
		default:
			q.start(func() { w.in(leg(p.rng), func() { finish(q) }) })
		}
	})
	p.park(func() bool { return done || ctx.Err() != nil })
	if !ok {
		return fmt.Errorf("no answer of %s", id)
	}
	return nil
}

func (w *world) machineAt(addr string) *machine {
	for _, m := range w.machines {
		if m.addr == addr {
			return m
		}
	}
	return nil
}
