package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-go/tenure/internal/sim"
)

// simOptions are the flags of "tenure sim".
type simOptions struct {
	seed         uint64
	seeds        int
	minutes      float64
	nodes, cells int
	rate         float64
	faults, only string
	jobs         int
	json, story  bool
}

const maxSimCells = 10_000

func (o *simOptions) define(f *pflag.FlagSet) {
	d := sim.Defaults
	f.SortFlags = false
	f.Uint64Var(&o.seed, "seed", d.Seed, "first `SEED`; the same one gives the same run")
	f.IntVar(&o.seeds, "seeds", 100, "how many `SEEDS` to run, one after the other from the first")
	describeDefault(f, "seeds", "100, or 1 with --seed")
	f.Float64Var(&o.minutes, "minutes", d.For.Minutes(), "`MINUTES` of the fleet's time with faults and requests, for each seed;\nthe calm after them comes on top")
	f.IntVar(&o.nodes, "nodes", d.Nodes, "how many `NODES` the fleet has")
	f.IntVar(&o.cells, "cells", d.Cells, "how many `CELLS` there are, at most "+strconv.Itoa(maxSimCells))
	f.Float64Var(&o.rate, "rate", d.Rate, "`REQUESTS` a second, of the whole fleet")
	f.StringVar(&o.faults, "faults", "", "comma-separated `KINDS` of faults, or none:\n"+wrapped(sim.Kinds(), 66))
	describeDefault(f, "faults", "all")
	f.StringVar(&o.only, "only", "", "comma-separated `NUMBERS` of the only faults to let happen, or none")
	describeDefault(f, "only", "all")
	f.IntVar(&o.jobs, "jobs", 0, "how many `SEEDS` to run at once")
	describeDefault(f, "jobs", "one per core")
	f.BoolVar(&o.story, "story", false, "print everything that happens in the first seed to stderr")
	f.BoolVar(&o.json, "json", false, "end with one JSON object on stdout, instead of a summary")
}

// wrapped joins words by commas, in lines of limited width.
func wrapped(words []string, width int) string {
	var lines []string
	line := ""
	for _, w := range words {
		if line != "" && len(line)+len(w)+2 > width {
			lines, line = append(lines, line), ""
		}
		line += w + ", "
	}
	return strings.TrimSuffix(strings.Join(append(lines, line), "\n"), ", ")
}

func (o *simOptions) check() error {
	switch {
	case o.seeds < 1:
		return usagef("--seeds is %d, must be at least 1", o.seeds)
	case !(o.minutes > 0) || o.minutes > 24*60:
		return usagef("--minutes is %v, must be more than 0 and at most a day", o.minutes)
	case o.nodes < 1 || o.nodes > 100:
		return usagef("--nodes is %d, must be from 1 to 100", o.nodes)
	case o.cells < 0 || o.cells > maxSimCells:
		return usagef("--cells is %d, must be from 0 to %d", o.cells, maxSimCells)
	case !(o.rate >= 0) || o.rate > 10_000:
		return usagef("--rate is %v, must be from 0 to 10000", o.rate)
	case o.jobs < 0:
		return usagef("--jobs is %d, must be at least 1", o.jobs)
	}
	_, err := o.config()
	return err
}

// config is what is simulated.
func (o *simOptions) config() (sim.Config, error) {
	c := sim.Config{
		Seed: o.seed, For: time.Duration(math.Round(o.minutes*1000)) * time.Minute / 1000,
		Nodes: o.nodes, Cells: o.cells, Rate: o.rate,
	}
	if o.faults != "" {
		c.Faults = list(o.faults)
		for _, k := range c.Faults {
			if !slices.Contains(sim.Kinds(), k) {
				return c, usagef("--faults has %q, which is none of %s", k, strings.Join(sim.Kinds(), ", "))
			}
		}
	}
	if o.only != "" {
		c.Only = []int{}
		for _, k := range list(o.only) {
			n, err := strconv.Atoi(k)
			if err != nil || n < 1 {
				return c, usagef("--only has %q, which is not the number of a fault", k)
			}
			c.Only = append(c.Only, n)
		}
	}
	return c, nil
}

// list is what a comma-separated flag holds; "none" is nothing.
func list(flag string) []string {
	all := []string{}
	for _, w := range strings.Split(flag, ",") {
		if w = strings.TrimSpace(w); w != "" && w != "none" {
			all = append(all, w)
		}
	}
	return all
}

func (p *program) simCommand() *cobra.Command {
	var o simOptions
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate fleets under faults, and check what is promised",
		Long: "Simulate whole fleets, with real nodes over one bucket in memory, while processes\n" +
			"stop and die, clocks drift, messages are lost and the bucket misbehaves; and check\n" +
			"all the while that no cell has two owners and that all the other promises of\n" +
			"docs/protocol.md are kept. Each seed is one fleet. A failure is shrunk to few faults,\n" +
			"and printed with the command that shows it again.",
		Args: noArgs,
	}
	o.define(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.settle(cmd.Flags(), o.check); err != nil {
			return err
		}
		if f := cmd.Flags(); f.Changed("seed") && !f.Changed("seeds") {
			o.seeds = 1
		}
		return p.simulate(o)
	}
	return cmd
}

// progressEvery is how often a line of progress is printed.
const progressEvery = 2 * time.Second

var errPromise = errors.New("the simulated fleets broke what docs/protocol.md promises")

func (p *program) simulate(o simOptions) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	if o.story {
		return p.tellStory(cfg)
	}
	if o.jobs == 0 {
		o.jobs = runtime.GOMAXPROCS(0)
	}
	debug.SetGCPercent(400) // what a run leaves behind is little; the default costs a sixth of the speed
	stop, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-p.signals:
			fmt.Fprintln(p.stderr, "tenure: stopping after the seeds under way; Ctrl-C again stops at once")
			close(stop)
		case <-over:
			return
		}
		select {
		case <-p.signals:
			p.exit(exitFailed)
		case <-over:
		}
	}()
	c := sim.Campaign{Config: cfg, Seeds: o.seeds, Jobs: o.jobs, Stop: stop, Shrink: cfg.Only == nil, Failed: p.printFailure}
	report := c.Run(func(now func() sim.Report) { go p.showProgress(now, o.seeds, over) })
	return p.printReport(report, o.json)
}

// tellStory runs the first seed alone, with all that happens in it.
func (p *program) tellStory(cfg sim.Config) error {
	cfg.Story = p.stderr
	if r := sim.Run(cfg); r.Violation != nil {
		return r.Violation
	}
	return nil
}

func (p *program) showProgress(now func() sim.Report, seeds int, over <-chan struct{}) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r := now()
			fmt.Fprintf(p.stderr, "%6.0fs  %d of %d seeds, %.0f minutes of fleets, %d violations\n", r.Seconds, r.Seeds, seeds, r.SimMinutes, r.Violations)
		case <-over:
			return
		}
	}
}

func (p *program) printFailure(f sim.Failure) {
	fmt.Fprintf(p.stderr, "\nseed %d, at %s: %s\n", f.Seed, f.At, f.Violation)
	for _, x := range f.Faults {
		fmt.Fprintf(p.stderr, "    %s\n", x)
	}
	fmt.Fprintf(p.stderr, "  to see it again:\n    %s\n\n", f.Command)
}

func (p *program) printReport(r sim.Report, asJSON bool) error {
	var err error
	if asJSON {
		err = json.NewEncoder(p.stdout).Encode(r)
	} else {
		s := r.Stats
		_, err = fmt.Fprintf(p.stdout, "%d seeds: %.1f minutes of fleets in %.1f s, %.0f per minute and core (%.0f with faults and requests)\n"+
			"%d requests, %d answered, %d refused; %d claims, %d takeovers, %d releases; %d processes, %d fenced; %d faults\n"+
			"%d violations\n", r.Seeds, r.SimMinutes, r.Seconds, r.PerMinute, r.BusyPerMinute,
			s.Requests, s.Answered, s.Refused, s.Claims, s.Takeovers, s.Releases, s.Boots, s.Fenced, s.Faults, r.Violations)
	}
	if err == nil && r.Violations > 0 {
		err = errPromise
	}
	return err
}
