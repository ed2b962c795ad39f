package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-go/tenure/internal/trace"
)

// replayOptions are the flags of "tenure replay".
type replayOptions struct {
	cell, until, diagram string
	explain, json        bool
}

func (o *replayOptions) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.BoolVar(&o.explain, "explain", false, "tell the story in words: of --cell, or of the node and its lease")
	f.StringVar(&o.cell, "cell", "", "`CELL` to tell of")
	f.StringVar(&o.until, "until", "", "`WHEN` to stop: a line number, a time of day as in the story, a date and\n"+
		"time (RFC 3339), or a DURATION from the trace's beginning")
	f.StringVar(&o.diagram, "diagram", "", "`FILE` for the story as a sequence diagram, in HTML")
	f.BoolVar(&o.json, "json", false, "print one JSON object, for machines")
}

func (p *program) replayCommand() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Replay recorded traces through the core and check them",
		Long: "Replay traces that \"tenure serve --trace FILE\" recorded through the core, and\n" +
			"compare what it decides with what was recorded. Several FILEs are those of one\n" +
			"node in order (FILE.1 FILE), or of several nodes, whose stories are laid side by\n" +
			"side by their wall clocks.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("a trace is needed: tenure replay FILE")
			}
			return nil
		},
	}
	o.define(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		if err := p.settle(cmd.Flags(), o.check); err != nil {
			return err
		}
		return p.replay(o, files)
	}
	return cmd
}

func (o *replayOptions) check() error {
	if _, err := parseUntil(o.until); err != nil {
		return usagef("--until %v", err)
	}
	return nil
}

// replay replays every file, tells what it was asked for, and fails if any was not
// identical.
func (p *program) replay(o replayOptions, files []string) error {
	until, _ := parseUntil(o.until)
	r := replays{until: until, tell: o.explain || o.diagram != ""}
	var failed error
	for _, path := range files {
		if err := r.file(path); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", path, err))
		}
	}
	return errors.Join(first(p.printReplays(o, &r), r.draw(o)), failed)
}

func (p *program) printReplays(o replayOptions, r *replays) error {
	if o.json {
		return r.writeJSON(p.stdout, o)
	}
	if o.explain {
		story, err := r.story(o.cell)
		if err != nil {
			return err
		}
		if err := trace.WriteStory(p.stdout, r.names(), story); err != nil {
			return err
		}
	}
	for _, one := range r.done {
		if _, err := io.WriteString(p.stdout, one.summary()); err != nil {
			return err
		}
	}
	return nil
}

// replays are the files replayed so far.
type replays struct {
	until until
	tell  bool
	done  []replayed
}

type replayed struct {
	path     string
	result   *trace.Replayed // nil if its header could not be read
	err      error
	narrator *trace.Narrator // nil without a header
	last     trace.Step      // its line and time
}

func (r *replays) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	defer f.Close()
	one := replayed{path: path}
	var prior *trace.Replayed
	if n := len(r.done); n > 0 {
		prior = r.done[n-1].result
	}
	one.result, one.err = trace.Replay(f, prior, func(h trace.Header) func(trace.Step) bool {
		one.narrator = trace.NewNarrator(len(r.done), h)
		return func(s trace.Step) bool {
			if r.until.passed(s.Line, one.narrator.Wall(s.Now), h) {
				return false
			}
			one.last = s
			if r.tell {
				one.narrator.See(s)
			}
			return true
		}
	})
	r.done = append(r.done, one)
	if one.err == nil && one.result.Difference != nil {
		return errors.New(one.result.Difference.String())
	}
	return one.err
}

// story is what is told, of one cell or of the nodes.
func (r *replays) story(cell string) ([]trace.Fact, error) {
	if cell == "" {
		return r.told(trace.OfNode), nil
	}
	cells := trace.Cells(r.told(func(all []trace.Fact) []trace.Fact { return all }))
	if !slices.Contains(cells, cell) {
		return nil, fmt.Errorf("nothing happened to a cell %q; there are %d: %s", cell, len(cells), strings.Join(cells[:min(len(cells), 20)], ", "))
	}
	return r.told(func(all []trace.Fact) []trace.Fact { return trace.OfCell(all, cell) }), nil
}

// told are the facts of all files that are selected, with the runs of each as one.
func (r *replays) told(selected func([]trace.Fact) []trace.Fact) []trace.Fact {
	var all [][]trace.Fact
	for _, one := range r.done {
		if one.narrator != nil {
			all = append(all, trace.Collapse(selected(one.narrator.Facts())))
		}
	}
	return trace.Merge(all...)
}

func (r *replays) names() []string {
	var names []string
	for _, one := range r.done {
		name := one.path
		if one.result != nil {
			name = one.result.Header.Name
		}
		names = append(names, name)
	}
	return names
}

// summary is the line about one file.
func (one replayed) summary() string {
	p := one.result
	if p == nil || p.Header.Format == 0 {
		return ""
	}
	s := ""
	for _, g := range p.Gaps {
		s += fmt.Sprintf("%s: line %d: %v\n", one.path, g.Line, g.Cut)
	}
	what := "identical"
	switch {
	case one.err != nil:
		what = "identical up to the error"
	case p.Difference != nil:
		what = "the last of them not identical"
	}
	s += fmt.Sprintf("%s: %d decisions of %s replayed, %s", one.path, p.Decisions, p.Node, what)
	if p.Stopped {
		s += ", stopped as asked"
	}
	if p.Torn {
		s += fmt.Sprintf("; the file ends in the middle of line %d, as after a crash: that one is left out", p.Lines+1)
	}
	return s + "\n"
}
