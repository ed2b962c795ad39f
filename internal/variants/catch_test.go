package variants

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/internal/check"
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
