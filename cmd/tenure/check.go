package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-go/tenure/internal/check"
)

// checkOptions are the flags of "tenure check".
type checkOptions struct {
	nodes, cells, requests int
	faults                 string
	rates, stamps, evict   bool
	noRestart              bool
	timeLimit              time.Duration
	stateLimit             int
	json                   bool
}

// eachFault are the runs of "tenure check" without --faults.
var eachFault = []string{"none", "crash", "delay", "lost", "late", "delete", "pause", "drain"}

func (o *checkOptions) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.IntVar(&o.nodes, "nodes", 2, "how many `NODES`, 1 to 3")
	f.IntVar(&o.cells, "cells", 1, "how many `CELLS`, 1 or 2")
	f.IntVar(&o.requests, "requests", 2, "how many `REQUESTS` of clients are open at a time, at most one a node")
	f.StringVar(&o.faults, "faults", "", "`KINDS` of fault that happen in one run, as \"crash,pause\" or \"lost=2,drain\":\n"+
		strings.Join(check.FaultNames(), ", ")+"; or none")
	describeDefault(f, "faults", "a run for each of "+strings.Join(eachFault, ", "))
	f.BoolVar(&o.rates, "rates", false, "the first node's clock is as slow, the last one's as fast, as is allowed")
	f.BoolVar(&o.stamps, "stamps", false, "the store stamps its answers, so that leases are judged by their age too")
	f.BoolVar(&o.evict, "evict", false, "cells are evicted at any moment")
	f.BoolVar(&o.noRestart, "no-restart", false, "where a process ended, none follows: a much smaller space")
	f.DurationVar(&o.timeLimit, "time-limit", 0, "`DURATION` after which a run ends, with what was seen by then")
	describeDefault(f, "time-limit", "none")
	f.IntVar(&o.stateLimit, "state-limit", 0, "`STATES` after which a run ends, with what was seen by then")
	describeDefault(f, "state-limit", "none")
	f.BoolVar(&o.json, "json", false, "end with one JSON object on stdout")
}

// checkRun is one search, and what it found.
type checkRun struct {
	Faults      string  `json:"faults"`
	States      int     `json:"states"`
	Transitions int     `json:"transitions"`
	Depth       int     `json:"depth"`
	Seconds     float64 `json:"seconds"`
	Complete    bool    `json:"complete"`
	Violation   string  `json:"violation,omitempty"`
}

func (p *program) checkCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Visit every state that a small fleet can reach",
		Long: "Visit every state that a small fleet can reach, with the very core that runs in\n" +
			"production, and check in each that the protocol keeps its promises. Faults happen\n" +
			"at every moment at which they can, each kind as often as --faults says. A\n" +
			"violation is told as the shortest story that leads to it, with exit code 1.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var runs []check.Config
			if err := p.settle(cmd.Flags(), func() (err error) { runs, err = o.runs(); return err }); err != nil {
				return err
			}
			return p.check(&o, runs)
		},
	}
	o.define(cmd.Flags())
	return cmd
}

// runs are the searches that the flags ask for.
func (o *checkOptions) runs() ([]check.Config, error) {
	base := check.Config{
		Nodes: o.nodes, Cells: o.cells, Requests: o.requests, Rates: o.rates, Stamps: o.stamps, Evict: o.evict, NoRestart: o.noRestart,
		MaxTime: o.timeLimit, MaxStates: o.stateLimit,
	}
	each := eachFault
	if o.faults != "" {
		each = []string{o.faults}
	}
	var runs []check.Config
	for _, list := range each {
		faults, err := parseFaults(list)
		if err != nil {
			return nil, err
		}
		base.Faults = faults
		if err := base.Check(); err != nil {
			return nil, usageError{err}
		}
		runs = append(runs, base)
	}
	return runs, nil
}

func parseFaults(list string) (map[check.Fault]int, error) {
	faults := map[check.Fault]int{}
	if list == "none" {
		return faults, nil
	}
	for _, item := range strings.Split(list, ",") {
		name, times, found := strings.Cut(item, "=")
		f, err := check.ParseFault(name)
		if err != nil {
			return nil, usagef("--faults %w", err)
		}
		n := 1
		if found {
			if n, err = strconv.Atoi(times); err != nil || n < 1 || n > 9 {
				return nil, usagef("--faults %s: how often must be a number from 1 to 9", item)
			}
		}
		faults[f] += n
	}
	return faults, nil
}

func faultWords(faults map[check.Fault]int) string {
	var words []string
	for _, f := range slices.Sorted(maps.Keys(faults)) {
		word := f.String()
		if faults[f] > 1 {
			word += "=" + strconv.Itoa(faults[f])
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ",")
}

var errViolated = errors.New("the protocol was violated")

// check searches, one run after the other, until one finds a violation.
func (p *program) check(o *checkOptions, runs []check.Config) error {
	var done []checkRun
	for _, cfg := range runs {
		name := faultWords(cfg.Faults)
		cfg.Progress = p.checkProgress(name)
		r, err := check.Run(cfg)
		if err != nil {
			return err
		}
		done = append(done, checkRun{
			Faults: name, States: r.States, Transitions: r.Transitions, Depth: r.Depth,
			Seconds: seconds(r.Elapsed), Complete: r.Complete, Violation: r.Violation,
		})
		fmt.Fprintf(p.stderr, "%-12s %s\n", name, reportWords(r))
		if r.Violation != "" {
			fmt.Fprintf(p.stderr, "\n%s\n", r.Story)
			break
		}
	}
	return p.checkResult(o, done)
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

func reportWords(r check.Report) string {
	end := "all were seen"
	switch {
	case r.Violation != "":
		end = "VIOLATED: " + r.Violation
	case !r.Complete:
		end = "not finished"
	}
	return fmt.Sprintf("%d states, %d transitions, depth %d, %.1f s: %s", r.States, r.Transitions, r.Depth, r.Elapsed.Seconds(), end)
}

// checkProgress says now and then how far a run is.
func (p *program) checkProgress(name string) func(check.Report) {
	next := 5 * time.Second
	return func(r check.Report) {
		if r.Elapsed < next || r.Complete {
			return
		}
		next = r.Elapsed + 5*time.Second
		fmt.Fprintf(p.stderr, "%-12s … %d states, depth %d, %.0f s\n", name, r.States, r.Depth, r.Elapsed.Seconds())
	}
}

// checkTotal is what all runs came to, as --json writes it.
type checkTotal struct {
	checkRun
	Violations int        `json:"violations"`
	Runs       []checkRun `json:"runs"`
}

func (p *program) checkResult(o *checkOptions, done []checkRun) error {
	total := checkTotal{checkRun: checkRun{Faults: o.faults, Complete: true}, Runs: done}
	for _, r := range done {
		total.States += r.States
		total.Transitions += r.Transitions
		total.Depth = max(total.Depth, r.Depth)
		total.Seconds += r.Seconds
		total.Complete = total.Complete && r.Complete
		if r.Violation != "" {
			total.Violations++
		}
	}
	if err := p.printTotal(o, total); err != nil {
		return err
	}
	if total.Violations > 0 {
		return reportedError{errViolated}
	}
	return nil
}

func (p *program) printTotal(o *checkOptions, t checkTotal) error {
	if o.json {
		return json.NewEncoder(p.stdout).Encode(t)
	}
	end := "all were seen"
	if !t.Complete {
		end = "not all were seen"
	}
	_, err := fmt.Fprintf(p.stdout, "%d states, %d transitions, %.1f s: %s\n", t.States, t.Transitions, t.Seconds, end)
	return err
}
