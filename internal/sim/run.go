package sim

import (
	"fmt"
	"io"
	"math"
	"time"
)

// Config says what to run. The same Config gives the same run.
type Config struct {
	Seed   uint64
	For    time.Duration // with faults; the calm after it comes on top
	Nodes  int
	Cells  int
	Rate   float64 // requests a second, of the whole fleet
	Faults []string
	Only   []int                        // numbers of the faults that happen; nil: all
	Story  io.Writer                    // told everything that happens; nil: nobody
	Judge  func(happened []Fault) error // one more judge, asked after each fault; nil: none
}

// Defaults are what "tenure sim" runs.
var Defaults = Config{Seed: 1, For: 5 * time.Minute, Nodes: 5, Cells: 100, Rate: 10}

// Violation is a broken promise.
type Violation struct {
	Property string // S1 to S7, L1 to L4, B1, or another word
	At       int64  // nanoseconds since the start
	Text     string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s violated at %s: %s", v.Property, time.Duration(v.At).Round(time.Millisecond), v.Text)
}

// Result is what a run came to.
type Result struct {
	Violation *Violation // nil: none
	Hash      uint64     // of every decision of every node
	Length    time.Duration
	Faults    []Fault // that happened, in order
	Stats     Stats
}

// Stats count what happened.
type Stats struct {
	Events, Steps, Requests, Answered, Refused, Dispatched, Forwarded int
	Takeovers, Claims, Releases, Fenced, Drained, Boots, Faults       int
	Late, Checked                                                     int
}

// Add adds up.
func (s *Stats) Add(o Stats) {
	s.Events += o.Events
	s.Steps += o.Steps
	s.Requests += o.Requests
	s.Answered += o.Answered
	s.Refused += o.Refused
	s.Dispatched += o.Dispatched
	s.Forwarded += o.Forwarded
	s.Takeovers += o.Takeovers
	s.Claims += o.Claims
	s.Releases += o.Releases
	s.Fenced += o.Fenced
	s.Drained += o.Drained
	s.Boots += o.Boots
	s.Faults += o.Faults
	s.Late += o.Late
	s.Checked += o.Checked
}

// Run runs one seed: trouble, then calm, in which everything must work again.
func Run(cfg Config) Result {
	return newWorld(cfg).live()
}

// live is the whole course of a world.
func (w *world) live() Result {
	defer w.close()
	for i := range w.machines {
		w.in(int64(w.rng.IntN(int(second/2))), func() { w.boot(w.machines[i]) })
	}
	w.planFaults()
	w.in(0, w.traffic)
	w.run(int64(w.cfg.For))
	w.calmDown()
	w.finale()
	w.checkHistory()
	w.stats.Events = w.events
	return Result{Violation: w.bad, Hash: w.hash.sum, Length: time.Duration(w.t), Faults: w.happened, Stats: w.stats}
}

const (
	millisecond = int64(time.Millisecond)
	second      = int64(time.Second)
	endless     = int64(math.MaxInt64)
)
