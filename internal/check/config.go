// Package check visits every state that a small fleet can reach: the real core on
// each node, and around it the worst world that the protocol allows. It goes
// breadth first, so a violation is found by the shortest path to it.
//
// Nothing takes time by itself here. Whatever is under way is carried out, in every
// order, before the clocks move on by one unit; only a fault makes something last.
// Each kind of fault happens as often as its budget says, at every moment at which
// it can.
package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Fault is one kind of trouble.
type Fault uint8

// The kinds of fault.
const (
	Crash  Fault = iota // a process ends at once
	Delay               // a write lands at any time later, or never; its caller hears nothing
	Lost                // an operation is carried out, or not, and its answer is lost
	Late                // an operation is carried out, and answered, at any time later
	Delete              // somebody deletes the lease record of a live node
	Pause               // a process stops for any time, before or after it decides
	Drain               // a node is asked to drain
	Refuse              // the store does not take a write, or does not answer a read
	Cut                 // a message to a peer does not get there, or its answer does not come back
	faults
)

var faultNames = [faults]string{"crash", "delay", "lost", "late", "delete", "pause", "drain", "refuse", "cut"}

func (f Fault) String() string { return faultNames[f] }

// FaultNames lists the kinds of fault by name.
func FaultNames() []string { return slices.Clone(faultNames[:]) }

// ParseFault finds a kind of fault by its name.
func ParseFault(name string) (Fault, error) {
	if i := slices.Index(faultNames[:], name); i >= 0 {
		return Fault(i), nil
	}
	return 0, fmt.Errorf("%q is not a kind of fault; there are %s", name, strings.Join(faultNames[:], ", "))
}

// Config says which fleet is checked.
type Config struct {
	// Nodes is how many machines there are, 1 to 3; Cells how many cells, 1 or 2.
	Nodes, Cells int
	// Requests is how many requests of clients are open at a time, at most one a
	// node.
	Requests int
	// Faults says how often each kind happens, at the most.
	Faults map[Fault]int
	// Rates lets the clocks of the nodes differ by all that the protocol allows:
	// the first is slow by slack per TTL, the last is fast by as much.
	Rates bool
	// Stamps has the store stamp its answers, so that rule "age" applies.
	Stamps bool
	// Evict has cells evicted.
	Evict bool
	// NoRestart: where a process ended none follows.
	NoRestart bool

	// MaxStates and MaxTime end the search before all was seen; 0: no limit.
	MaxStates int
	MaxTime   time.Duration
	// Workers is how many goroutines search; 0: one a processor.
	Workers int
	// Progress is told about each depth that was finished; may be nil.
	Progress func(Report)
}

// Report is what was seen.
type Report struct {
	States, Transitions, Depth int
	Elapsed                    time.Duration
	// Complete: there is no state that was not seen.
	Complete bool
	// Violation is empty if none was found; Story tells the shortest way to it.
	Violation string
	Story     string
}

// settings are those of every node, in units that are as coarse as they can be
// while each interval of the protocol still has a length of its own. A reading may
// take longer than twice the slack.
func (c *Config) settings() core.Config {
	return core.Config{
		TTL: 6, Slack: 1, Renew: 2, LeaseDeadline: 1, RetryStep: 1, OpDeadline: 3, DialDeadline: 1,
		ActivateDeadline: 1, DeactivateDeadline: 1, DrainDeadline: 4,
		MaxActivations: 4, MaxReleases: 4, MaxQueue: 16, MaxRoutes: 4, MaxPeers: 16, Protocol: 1,
	}
}

const maxNodes = 3

// patience is the deadline of a client's request.
const patience core.Time = 2

// Check reports what is wrong with a Config.
func (c *Config) Check() error {
	switch {
	case c.Nodes < 1 || c.Nodes > maxNodes:
		return fmt.Errorf("check: %d nodes; there can be 1 to %d", c.Nodes, maxNodes)
	case c.Cells < 1 || c.Cells > 2:
		return fmt.Errorf("check: %d cells; there can be 1 or 2", c.Cells)
	case c.Requests < 1:
		return fmt.Errorf("check: without requests nothing happens")
	}
	return nil
}
