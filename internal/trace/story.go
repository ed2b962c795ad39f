package trace

import (
	"fmt"
	"io"
	"slices"

	"github.com/tenure-go/tenure/core"
)

// Merge lays the facts of several traces side by side, by their wall clocks.
func Merge(all ...[]Fact) []Fact {
	merged := slices.Concat(all...)
	slices.SortStableFunc(merged, func(a, b Fact) int { return a.Wall.Compare(b.Wall) })
	return merged
}

// OfCell are the facts about one cell, about the nodes that owned it, and about the
// end of the session.
func OfCell(facts []Fact, name string) []Fact {
	cell := core.CellName(name)
	owners := map[core.NodeID]bool{}
	var out []Fact
	for _, f := range facts {
		ends := f.Kind == Ended || f.Kind == Fenced
		if f.Cell == cell && f.Peer != "" {
			owners[f.Peer] = true
		}
		if f.Cell == cell || f.Cell == "" && (ends || f.Peer != "" && owners[f.Peer]) {
			out = append(out, f)
		}
	}
	return out
}

// Cells are the names of the cells that facts are about.
func Cells(facts []Fact) []string {
	var names []string
	for _, f := range facts {
		if f.Cell != "" {
			names = append(names, string(f.Cell))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OfNode are the facts about no cell: about the node's own lease and its peers.
func OfNode(facts []Fact) []Fact {
	var out []Fact
	for _, f := range facts {
		if f.Cell == "" {
			out = append(out, f)
		}
	}
	return out
}

// Overview is what OfNode says, and when cells became this node's and were given up.
func Overview(facts []Fact) []Fact {
	var out []Fact
	for _, f := range facts {
		switch {
		case f.Cell == "":
			out = append(out, f)
		case f.Kind == Owned || f.Kind == Released:
			f.Label = fmt.Sprintf("%s: epoch %d %s", f.Cell, f.Epoch, f.Kind)
			f.Text = fmt.Sprintf("%s: %s", f.Cell, f.Text)
			out = append(out, f)
		}
	}
	return out
}

// WriteStory writes facts as lines for people: time, the name of the node if there
// are several traces, line, words.
func WriteStory(w io.Writer, names []string, facts []Fact) error {
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}
	for _, f := range facts {
		if f.Text == "" {
			continue
		}
		name := ""
		if len(names) > 1 {
			name = fmt.Sprintf("%-*s ", width, names[f.Source])
		}
		if _, err := fmt.Fprintf(w, "%s %s%6d  %s\n", Clock(f.Wall), name, f.Line, f.Text); err != nil {
			return err
		}
	}
	return nil
}
