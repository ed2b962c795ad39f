package trace

import (
	"fmt"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Fact is one thing that happened, in words, and as a line in a diagram.
type Fact struct {
	Source int // index of the trace
	Line   int // in its file
	At     core.Time
	Wall   time.Time // At, by the header's wall clock
	Kind   Kind
	Cell   core.CellName // empty if it is about the node
	Peer   core.NodeID   // the other node that it is about
	Epoch  core.Epoch
	Until  time.Time // when authority ends now, with Authority
	Since  time.Time // when the observation began, with Verdict
	Text   string

	// Run, if it is not empty, names what this fact and those beside it are an
	// uneventful part of. A long run is told at once: how many facts Counts, and the
	// last RunText.
	Run, RunText string
	Counts       bool
	Began        time.Time // of a run that is told at once

	// From and To are lanes of the diagram: an arrow if they differ, a note on the
	// lane if not.
	From, To string
	Label    string
	Bad      bool // it did not go as wanted
	Minor    bool // not worth a row of the diagram
}

// Kind is what sort of thing happened.
type Kind string

// Kinds that mean something to the diagram. All others are Message.
const (
	Message   Kind = ""
	Authority Kind = "authority" // begins, or lasts longer
	Ended     Kind = "ended"     // the session
	Fenced    Kind = "fenced"
	Verdict   Kind = "verdict" // a peer is dead
	Owned     Kind = "owned"   // the cell is this node's at an epoch
	Leaving   Kind = "leaving" // it is served no more
	Released  Kind = "released"
	TraceEnds Kind = "trace-ends"
)

// Lanes of the diagram; any other is a node's id.
const (
	laneSelf    = "self"
	laneBucket  = "bucket"
	laneApp     = "app"
	laneCallers = "callers"
)

// dur is a duration for people.
func dur(t core.Time) string {
	d := time.Duration(t)
	switch {
	case d >= 10*time.Millisecond || d <= -10*time.Millisecond:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(time.Microsecond)
	}
	return d.String()
}

// Clock is a wall time for people.
func Clock(t time.Time) string { return t.Format("15:04:05.000") }

// Collapse tells each uneventful run among the facts of one trace as one fact. Runs
// of one or two are left alone.
func Collapse(facts []Fact) []Fact {
	const few = 6 // two renewals, or one request and a half
	var out []Fact
	for i := 0; i < len(facts); {
		j := i + 1
		for j < len(facts) && facts[j].continues(facts[i]) {
			j++
		}
		if j-i < few {
			out = append(out, facts[i:j]...)
		} else {
			out = append(out, summary(facts[i:j]))
		}
		i = j
	}
	return out
}

func (f Fact) continues(g Fact) bool {
	return f.Run != "" && f.Run == g.Run && f.Source == g.Source && f.Cell == g.Cell
}

func summary(run []Fact) Fact {
	last := run[len(run)-1]
	n, text := 0, ""
	for _, f := range run {
		if f.Counts {
			n++
		}
		if f.RunText != "" {
			text = f.RunText
		}
	}
	last.Label = fmt.Sprintf("%d %s", n, text)
	last.Text = fmt.Sprintf("%d %s (since %s, line %d)", n, text, Clock(run[0].Wall), run[0].Line)
	last.Began = run[0].Wall
	last.From, last.To, last.Minor = laneSelf, laneSelf, false
	return last
}
