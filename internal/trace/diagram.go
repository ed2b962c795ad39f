package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Source is one trace of a diagram.
type Source struct {
	Path string
	Name string
	Node core.NodeID
	// Last is the wall time of its last decision, on Line.
	Last    time.Time
	Line    int
	Summary string // what came of its replay
	Facts   []Fact // all, not collapsed
}

// Diagram is a story laid out: lanes from left to right, rows from top to bottom.
// Rows are ordered by time, not to its scale: idle time is one short row.
type Diagram struct {
	Title   string
	Sources []Source
	Shown   []Fact // what the rows show, for the words below
	lanes   []lane
	rows    []row
	bars    []bar
	height  float64
	LeftOut int // rows beyond maxRows
}

type lane struct {
	key, title, sub string
	x               float64
}

// row is a fact, or a time in which nothing happened.
type row struct {
	y        float64
	at       time.Time
	fact     *Fact
	from, to int // lanes
	idle     string
	again    bool // of the same decision as the row before
}

// bar is a time on a lane.
type bar struct {
	lane     int
	class    string
	from, to float64
	label    string
	open     bool // it goes on below the diagram
	offset   float64
}

const (
	gutter    = 150.0
	laneWidth = 235.0
	rowFirst  = 36.0 // of a decision
	rowAgain  = 28.0
	rowIdle   = 34.0
	maxRows   = 600
)

// Draw lays out facts, which were selected and collapsed, of the sources. cell is
// whose story it is; empty: the nodes'.
func Draw(title, cell string, sources []Source, facts []Fact) *Diagram {
	d := &Diagram{Title: title, Sources: sources}
	facts = append(slices.Clone(facts), d.endings()...)
	facts = slices.DeleteFunc(facts, func(f Fact) bool { return f.Minor })
	slices.SortStableFunc(facts, func(a, b Fact) int { return a.Wall.Compare(b.Wall) })
	if len(facts) > maxRows {
		d.LeftOut = len(facts) - maxRows
		facts = facts[:maxRows]
	}
	d.Shown = facts
	d.layLanes()
	d.layRows()
	for i := range sources {
		d.authorityBar(i)
		d.ownershipBars(i, core.CellName(cell))
	}
	d.watchBars()
	d.height += 60
	return d
}

// endings are notes where traces end without the end of the session.
func (d *Diagram) endings() []Fact {
	var notes []Fact
	for i, s := range d.Sources {
		over := slices.ContainsFunc(s.Facts, func(f Fact) bool { return f.Kind == Ended || f.Kind == Fenced })
		if !over && len(s.Facts) > 0 {
			notes = append(notes, Fact{Source: i, Line: s.Line, Wall: s.Last, From: laneSelf, To: laneSelf,
				Kind: TraceEnds, Label: "this trace ends here", Text: "the trace ends here, and the session did not: the process runs on, or was killed"})
			notes = append(notes, lastAuthority(i, s)...)
		}
	}
	return notes
}

// lastAuthority is when the authority ends of which a trace tells last.
func lastAuthority(source int, s Source) []Fact {
	for _, f := range slices.Backward(s.Facts) {
		if f.Kind == Authority {
			return []Fact{{Source: source, Line: f.Line, Wall: f.Until, From: laneSelf, To: laneSelf, Kind: TraceEnds,
				Label: "authority ends, unless it was renewed", Text: "the authority of which this trace tells last ends here"}}
		}
	}
	return nil
}

// laneKey makes a lane of one source one of the diagram.
func (d *Diagram) laneKey(source int, name string) string {
	switch name {
	case laneSelf:
		return string(d.Sources[source].Node)
	case laneApp:
		return "app of " + string(d.Sources[source].Node)
	}
	return name
}

func (d *Diagram) layLanes() {
	used := map[string]bool{}
	for _, f := range d.Shown {
		used[d.laneKey(f.Source, f.From)] = true
		used[d.laneKey(f.Source, f.To)] = true
	}
	add := func(key, title, sub string) {
		if used[key] {
			used[key] = false
			d.lanes = append(d.lanes, lane{key, title, sub, gutter + laneWidth*(float64(len(d.lanes))+0.5)})
		}
	}
	add(laneCallers, "callers", "")
	for i, s := range d.Sources {
		add(d.laneKey(i, laneSelf), s.Name, string(s.Node))
		add(d.laneKey(i, laneApp), "application", "of "+s.Name)
	}
	var peers []string
	for key, there := range used {
		if there && key != laneBucket {
			peers = append(peers, key)
		}
	}
	slices.Sort(peers)
	for _, p := range peers {
		add(p, peerName(p), p)
	}
	add(laneBucket, "bucket", "")
}

// peerName is the name that a node's id begins with.
func peerName(id string) string {
	if i := strings.LastIndexByte(id, '-'); i > 0 {
		return id[:i]
	}
	return id
}

func (d *Diagram) lane(key string) int {
	return slices.IndexFunc(d.lanes, func(l lane) bool { return l.key == key })
}

func (d *Diagram) layRows() {
	idle := d.idleFrom()
	y := 12.0
	for i := range d.Shown {
		f := &d.Shown[i]
		r := row{at: f.Wall, fact: f, from: d.lane(d.laneKey(f.Source, f.From)), to: d.lane(d.laneKey(f.Source, f.To))}
		if i > 0 {
			before := d.Shown[i-1]
			r.again = before.Source == f.Source && before.Line == f.Line
			next := f.Wall
			if !f.Began.IsZero() {
				next = f.Began
			}
			if gap := next.Sub(before.Wall); gap >= idle {
				y += rowIdle
				d.rows = append(d.rows, row{y: y - 4, at: before.Wall.Add(gap / 2), idle: dur(core.Time(gap))})
			}
		}
		y += rowFirst
		if r.again {
			y += rowAgain - rowFirst
		}
		y += 14 * float64(len(noteLines(f))-1)
		r.y = y
		d.rows = append(d.rows, r)
	}
	d.height = y
}

// idleFrom is the time between rows that is worth a row of its own: an eighth of
// what the whole story would be if it were to scale, a second at the most.
func (d *Diagram) idleFrom() time.Duration {
	if len(d.Shown) == 0 {
		return time.Second
	}
	whole := d.Shown[len(d.Shown)-1].Wall.Sub(d.Shown[0].Wall)
	return min(time.Second, max(50*time.Millisecond, whole/8))
}

// yAt is where a time is among the rows.
func (d *Diagram) yAt(at time.Time) float64 {
	i, _ := slices.BinarySearchFunc(d.rows, at, func(r row, t time.Time) int { return r.at.Compare(t) })
	switch {
	case len(d.rows) == 0 || i == 0:
		return 20
	case i == len(d.rows):
		return d.height + 40
	}
	a, b := d.rows[i-1], d.rows[i]
	part := float64(at.Sub(a.at)) / float64(max(1, b.at.Sub(a.at)))
	return a.y + (b.y-a.y)*min(1, part)
}

// authorityBar is from the first authority of a node to its end.
func (d *Diagram) authorityBar(source int) {
	s := d.Sources[source]
	var from, until time.Time
	ended := false
	for _, f := range s.Facts {
		switch f.Kind {
		case Authority:
			if from.IsZero() {
				from = f.Wall
			}
			until = f.Until
		case Ended, Fenced:
			if !until.IsZero() && f.Wall.Before(until) {
				until = f.Wall
			}
			ended = true
		}
	}
	at := d.lane(d.laneKey(source, laneSelf))
	if from.IsZero() || at < 0 {
		return
	}
	b := bar{lane: at, class: "authority", from: d.yAt(from), to: d.yAt(until), open: !ended && until.After(d.end())}
	if b.open {
		b.label = "until " + Clock(until)
	}
	d.bars = append(d.bars, b)
}

func (d *Diagram) end() time.Time {
	if len(d.rows) == 0 {
		return time.Time{}
	}
	return d.rows[len(d.rows)-1].at
}

// ownershipBars are the epochs of the cell on one node.
func (d *Diagram) ownershipBars(source int, cell core.CellName) {
	s := d.Sources[source]
	at := d.lane(d.laneKey(source, laneSelf))
	if cell == "" || at < 0 {
		return
	}
	var open *bar
	end := func(t time.Time) {
		if open != nil {
			open.to = d.yAt(t)
			d.bars = append(d.bars, *open)
			open = nil
		}
	}
	var until time.Time
	for _, f := range s.Facts {
		switch {
		case f.Kind == Authority:
			until = f.Until
		case f.Kind == Owned && f.Cell == cell:
			end(f.Wall)
			open = &bar{lane: at, class: "owned", from: d.yAt(f.Wall), label: fmt.Sprintf("epoch %d", f.Epoch), offset: 11}
		case f.Kind == Leaving && f.Cell == cell, f.Kind == Ended:
			end(f.Wall)
		case f.Kind == Fenced: // a process that was stopped finds out late
			end(until)
		}
	}
	end(until)
}

// watchBars are the observations that ended in a verdict.
func (d *Diagram) watchBars() {
	for _, r := range d.rows {
		if r.fact != nil && r.fact.Kind == Verdict && r.from >= 0 && !r.fact.Since.IsZero() {
			d.bars = append(d.bars, bar{lane: r.from, class: "watched", from: d.yAt(r.fact.Since), to: r.y - 14, label: "watched by " + d.Sources[r.fact.Source].Name, offset: -14})
		}
	}
	slices.SortStableFunc(d.bars, func(a, b bar) int { return cmp.Compare(a.class, b.class) })
}

// noteLines is a note's label in lines that fit.
func noteLines(f *Fact) []string {
	if f.From != f.To {
		return []string{f.Label}
	}
	return wrap(f.Label, 34)
}

func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
