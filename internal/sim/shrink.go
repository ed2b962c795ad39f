package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// grain is to what lengths are rounded, so that a command line can say them.
const grain = time.Minute / 1000

// maxTries bounds how often a run is repeated to shrink it.
const maxTries = 400

// shrinker looks for the shortest run that still breaks the same promise.
type shrinker struct {
	cfg   Config
	best  Result
	tries int
}

// Shrink returns a shorter run that fails as r did: cut off after the failure, and
// with few of the faults. Faults that are left out change nothing about the others.
func Shrink(cfg Config, r Result) (Config, Result) {
	cfg.Story = nil
	s := &shrinker{cfg: cfg, best: r}
	s.cut()
	s.thin()
	return s.cfg, s.best
}

// fails tries a run, and keeps it if it fails likewise.
func (s *shrinker) fails(cfg Config) bool {
	if s.tries++; s.tries > maxTries {
		return false
	}
	r := Run(cfg)
	if r.Violation == nil || r.Violation.Property != s.best.Violation.Property {
		return false
	}
	s.cfg, s.best = cfg, r
	return true
}

// cut shortens the time with faults.
func (s *shrinker) cut() {
	cfg := s.cfg
	if at := time.Duration(s.best.Violation.At); at < cfg.For {
		cfg.For = (at/grain + 1) * grain
		if cfg.For < s.cfg.For {
			s.fails(cfg)
		}
		return
	}
	for cfg.For /= 2; cfg.For > time.Second; cfg.For /= 2 { // it failed in the calm after the faults
		cfg.For = cfg.For / grain * grain
		if !s.fails(cfg) {
			return
		}
	}
}

// thin leaves out as many faults as it can: large parts of them first, then
// smaller ones (delta debugging).
func (s *shrinker) thin() {
	left := s.numbers()
	for parts := 2; len(left) > 0 && s.tries < maxTries; {
		size := (len(left) + parts - 1) / parts
		smaller := false
		for at := 0; at < len(left); at += size {
			cfg := s.cfg
			cfg.Only = slices.Delete(slices.Clone(left), at, min(at+size, len(left)))
			if s.fails(cfg) {
				left, smaller = s.numbers(), true
				break
			}
		}
		switch {
		case smaller:
			parts = max(2, parts-1)
		case size == 1:
			return
		default:
			parts = min(2*parts, len(left))
		}
	}
}

// numbers are those of the faults that happened in the best run.
func (s *shrinker) numbers() []int {
	only := []int{}
	for _, f := range s.best.Faults {
		only = append(only, f.N)
	}
	return only
}

// Command is what to paste to see the run again.
func (c Config) Command() string {
	args := []string{"tenure sim", fmt.Sprintf("--seed %d --minutes %s", c.Seed, strconv.FormatFloat(float64(c.For)/float64(time.Minute), 'f', -1, 64))}
	if c.Nodes != Defaults.Nodes {
		args = append(args, fmt.Sprintf("--nodes %d", c.Nodes))
	}
	if c.Cells != Defaults.Cells {
		args = append(args, fmt.Sprintf("--cells %d", c.Cells))
	}
	if c.Rate != Defaults.Rate {
		args = append(args, "--rate "+strconv.FormatFloat(c.Rate, 'f', -1, 64))
	}
	if c.Faults != nil {
		args = append(args, "--faults "+orNone(strings.Join(c.Faults, ",")))
	}
	if c.Only != nil {
		args = append(args, "--only "+orNone(strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Only), " ", ","), "[]")))
	}
	return strings.Join(args, " ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
