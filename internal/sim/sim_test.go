package sim

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"
)

func short(seed uint64, length time.Duration) Config {
	c := Defaults
	c.Seed, c.For = seed, length
	return c
}

// Whatever goes wrong, what docs/protocol.md promises holds.
func TestSeeds(t *testing.T) {
	c := Campaign{Config: short(1, 15*time.Second), Seeds: 160, Jobs: runtime.GOMAXPROCS(0)}
	r := c.Run(nil)
	for _, f := range r.Failures {
		t.Errorf("%s\n\tat %s: %s", f.Command, f.At, f.Violation)
	}
	t.Logf("%.0f minutes of fleets per minute and core; %+v", r.PerMinute, r.Stats)
	if s := r.Stats; s.Takeovers == 0 || s.Fenced == 0 || s.Drained == 0 || s.Forwarded == 0 || s.Answered < s.Requests/3 {
		t.Errorf("too little happens: %+v", s)
	}
}

// Fleets of other sizes.
func TestSizes(t *testing.T) {
	for _, size := range []struct {
		nodes, cells int
		rate         float64
	}{{1, 1, 5}, {2, 0, 10}, {3, 10_000, 200}, {9, 4, 30}} {
		c := short(7, 10*time.Second)
		c.Nodes, c.Cells, c.Rate = size.nodes, size.cells, size.rate
		if r := Run(c); r.Violation != nil {
			t.Errorf("%s\n\t%v", c.Command(), r.Violation)
		}
	}
}

// regressions are runs that find a bug again, should it come back.
var regressions = []struct {
	seed   uint64
	length time.Duration
	only   []int
	what   string
}{
	{
		100363, 968 * grain, []int{9, 13, 14, 16, 17},
		"the store's clock stepped less than TTL + slack before a slow reading began, and the age of a lease that was renewed meanwhile was believed",
	},
	{
		101900, 77 * grain, []int{4, 5},
		"an activation that took too long was ended twice, and by two calls at once, when the session was over before it returned",
	},
}

func TestRegressions(t *testing.T) {
	for _, x := range regressions {
		c := short(x.seed, x.length)
		c.Only = x.only
		if r := Run(c); r.Violation != nil {
			t.Errorf("%s\n\t%s: %v", c.Command(), x.what, r.Violation)
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	seen := map[uint64]uint64{}
	for seed := uint64(1); seed <= 12; seed++ {
		a, b := Run(short(seed, 8*time.Second)), Run(short(seed, 8*time.Second))
		if a.Hash != b.Hash || a.Stats != b.Stats || a.Length != b.Length {
			t.Errorf("seed %d gave two different runs: %+v and %+v", seed, a, b)
		}
		if other, is := seen[a.Hash]; is {
			t.Errorf("seeds %d and %d gave the same run", seed, other)
		}
		seen[a.Hash] = seed
	}
}

// A run is cut short and thinned out to the faults that it takes.
func TestShrink(t *testing.T) {
	cfg := short(1, time.Minute)
	cfg.Judge = func(happened []Fault) error {
		crash := slices.IndexFunc(happened, func(f Fault) bool { return f.Kind == kindCrash })
		if crash >= 0 && slices.ContainsFunc(happened[crash:], func(f Fault) bool { return f.Kind == kindSlow }) {
			return errors.New("slow after a crash")
		}
		return nil
	}
	r := Run(cfg)
	for ; r.Violation == nil || len(r.Faults) < 8; r = Run(cfg) {
		cfg.Seed++
	}
	small, last := Shrink(cfg, r)
	if len(small.Only) != 2 || len(last.Faults) != 2 || small.For > time.Duration(r.Violation.At)+grain {
		t.Errorf("shrunk to %+v", small)
	}
	again := Run(small)
	if again.Violation == nil || again.Violation.Property != "judge" || again.Hash != last.Hash {
		t.Errorf("%s: %+v, want %+v", small.Command(), again.Violation, last.Violation)
	}
}

func TestCommand(t *testing.T) {
	c := short(7, 90*time.Second)
	if got, want := c.Command(), "tenure sim --seed 7 --minutes 1.5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c = Config{Seed: 8, For: 1234 * grain, Nodes: 3, Cells: 2, Rate: 0.5, Faults: []string{"cut", "late"}, Only: []int{}}
	if got, want := c.Command(), "tenure sim --seed 8 --minutes 1.234 --nodes 3 --cells 2 --rate 0.5 --faults cut,late --only none"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
