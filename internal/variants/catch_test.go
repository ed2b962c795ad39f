package variants

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/check"
	"github.com/tenure-go/tenure/internal/sim"
)

// catchEnv makes this test program a catcher: it runs the checker that the variable
// describes on the product that it was built with, and writes what it caught.
const catchEnv = "TENURE_VARIANT_CATCHER"

func TestMain(m *testing.M) {
	spec := os.Getenv(catchEnv)
	if spec == "" {
		os.Exit(m.Run())
	}
	var c catcher
	err := json.Unmarshal([]byte(spec), &c)
	var got caught
	if err == nil {
		got, err = c.catch()
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(got)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (c catcher) catch() (caught, error) {
	if c.Sim > 0 {
		return c.simulate(), nil
	}
	return c.search()
}

// simulate runs one seed after the other, until one finds the mistake.
func (c catcher) simulate() caught {
	for seed := 1; seed <= c.Sim; seed++ {
		cfg := sim.Defaults
		cfg.Seed, cfg.For = uint64(seed), time.Minute
		if r := sim.Run(cfg); r.Violation != nil {
			return caught{Violation: r.Violation.Error(), After: fmt.Sprintf("%d seeds", seed)}
		}
	}
	return caught{}
}

func (c catcher) search() (caught, error) {
	cfg := check.Config{Nodes: 2, Cells: 1, Requests: 2, Faults: map[check.Fault]int{}, MaxStates: 4_000_000}
	for _, word := range strings.Split(c.Check, ",") {
		switch word {
		case "rates":
			cfg.Rates = true
		case "stamps":
			cfg.Stamps = true
		case "evict":
			cfg.Evict = true
		case "one": // request at a time
			cfg.Requests = 1
		case "none":
		default:
			f, err := check.ParseFault(word)
			if err != nil {
				return caught{}, err
			}
			cfg.Faults[f]++
		}
	}
	r, err := check.Run(cfg)
	return caught{Violation: r.Violation, After: fmt.Sprintf("%d states", r.States), Story: r.Story}, err
}
