package core_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/core"
)

var (
	firstSeed = flag.Uint64("seed", 0, "run only this seed of the world, and print its trace")
	seedCount = flag.Int("seeds", defaultSeeds, "seeds of the world to run")
	stopFirst = flag.Bool("stopfirst", false, "stop at the first seed that fails")
	seedFrom  = flag.Uint64("from", 1, "the first seed")
)

// regressions are seeds that find a bug again, should it come back:
//
//	1: a request that came together with the fence had no answer
//	3: a dead owner's cell, known from a route, was claimed as if it had no record
//	66: a request that was sent anew asked for a Tick in the past
//	552: more routes than allowed, while requests waited to own cells
//
// The numbers follow the world: one that draws its numbers otherwise makes them
// other worlds. What they found is also told in testdata, where it can be.
var regressions = []uint64{1, 3, 66, 552}

// simulate runs one seed: trouble, then calm, in which everything must work again.
func simulate(seed uint64, trace *strings.Builder) *world {
	w := newWorld(seed)
	w.trace = trace
	for m := range w.plan.machines {
		w.in(w.delay(), func() { w.boot(m) })
	}
	w.in(1, w.chaos)
	w.in(1, w.traffic)
	w.run(w.plan.length)
	w.calm = true
	w.run(5 * ttl)
	w.finale()
	return w
}

// finale: with no more faults every request is served (L2).
func (w *world) finale() {
	w.round(false)
	w.run(ttl + slack + ttl)
	w.round(true)
	w.run(2 * ttl)
}

func (w *world) round(must bool) {
	for i := range w.plan.cells {
		name := core.CellName(fmt.Sprintf("c%d", i))
		for _, p := range w.procs {
			if w.bad != nil || p.dead || p.s.Draining() || !p.s.Held() {
				continue
			}
			c := p.request(name, 2*ttl, false, false)
			w.run(ttl)
			if must && !c.begun && !p.dead && c.why.Code != core.CodePeerIncompatible {
				w.violated("L2: %s did not serve %s once all was calm: %+v", p.s.Node(), name, *c)
			}
		}
	}
}

func TestWorld(t *testing.T) {
	if *firstSeed != 0 {
		var trace strings.Builder
		w := simulate(*firstSeed, &trace)
		fmt.Fprint(os.Stderr, trace.String())
		t.Logf("%+v", w.stats)
		if w.bad != nil {
			t.Fatal(w.bad)
		}
		return
	}
	var total stats
	total.codes = map[core.Code]int{}
	failed := 0
	for i := range *seedCount {
		seed := *seedFrom + uint64(i)
		w := simulate(seed, nil)
		total.add(w.stats)
		if w.bad != nil {
			t.Errorf("go test ./core -run TestWorld -seed %d\n\t%v", seed, w.bad)
			if failed++; failed >= 10 || *stopFirst {
				break
			}
		}
	}
	t.Logf("%+v", total)
}

func (s *stats) add(o stats) {
	s.steps += o.steps
	s.dispatched += o.dispatched
	s.answered += o.answered
	s.failed += o.failed
	s.fenced += o.fenced
	s.takeovers += o.takeovers
	s.lates += o.lates
	s.ends += o.ends
	for code, n := range o.codes {
		s.codes[code] += n
	}
}

func TestWorldRegressions(t *testing.T) {
	for _, seed := range regressions {
		if w := simulate(seed, nil); w.bad != nil {
			t.Errorf("go test ./core -run TestWorld -seed %d\n\t%v", seed, w.bad)
		}
	}
}

// The same seed gives the same decisions, byte for byte.
func TestWorldIsDeterministic(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		if a, b := simulate(seed, nil), simulate(seed, nil); a.hash != b.hash {
			t.Errorf("seed %d gave two different runs", seed)
		}
	}
}
