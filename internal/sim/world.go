package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/tenure-go/tenure/core"
)

// world is everything there is.
type world struct {
	cfg  Config
	plan plan
	rng  *rand.Rand // of the world's own course; faults draw from theirs

	t       int64 // real time
	seq     uint64
	events  int
	agenda  agenda
	free    []*co
	current *co // that runs now

	calm     bool
	machines []*machine
	procs    []*proc // that run, oldest first
	byID     map[core.NodeID]*proc
	store    *store
	active   []*fault
	happened []Fault

	clients clients
	history history
	begun   map[core.CellName]core.Epoch // the highest at which anything began

	hash  digest
	bad   *Violation
	stats Stats
}

// machine is where one process after another runs, at one address.
type machine struct {
	n     int
	addr  string
	rate  rate
	wall  int64 // of its wall clock, against real time
	boots int
	proc  *proc // nil: none runs
}

func newWorld(cfg Config) *world {
	w := &world{
		cfg: cfg, rng: stream(cfg.Seed, "world"), byID: map[core.NodeID]*proc{},
		begun: map[core.CellName]core.Epoch{},
	}
	w.plan = makePlan(w.rng, cfg)
	w.store = newStore(w)
	w.clients.rng = stream(cfg.Seed, "clients")
	w.history.init()
	for n := range cfg.Nodes {
		w.machines = append(w.machines, &machine{
			n: n, addr: fmt.Sprintf("10.0.0.%d:7000", n+1), rate: w.drawRate(),
			wall: w.rng.Int64N(48*3600*second) - 24*3600*second,
		})
	}
	return w
}

// drawRate is a machine's: often exactly at the bound.
func (w *world) drawRate() rate {
	any, at := rate(w.rng.IntN(int(2*boundRate+1)))-boundRate, w.rng.IntN(4)
	switch {
	case !w.enabled(kindRates):
		return 0
	case w.plan.bound && at == 0:
		return 0
	case w.plan.bound && at == 1:
		return boundRate
	case w.plan.bound:
		return -boundRate
	}
	return any
}

// stream is a source of numbers for one purpose.
func stream(seed uint64, purpose string) *rand.Rand {
	var d digest
	d.text(purpose)
	return rand.New(rand.NewPCG(seed, d.sum))
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (w *world) logf(format string, args ...any) {
	if w.cfg.Story != nil {
		fmt.Fprintf(w.cfg.Story, "%12.6f  %s\n", float64(w.t)/float64(second), fmt.Sprintf(format, args...))
	}
}

// leg is how long a message takes one way, when all is well.
func leg(r *rand.Rand) int64 { return millisecond + r.Int64N(20*millisecond) }

func (w *world) cell(i int) core.CellName { return core.CellName(fmt.Sprintf("c%d", i)) }
