package check

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestFaults(t *testing.T) {
	for _, name := range strings.Split(os.Getenv("F"), ";") {
		cfg := Config{Nodes: 2, Cells: 1, Requests: 2, MaxTime: 1500 * time.Second, Faults: map[Fault]int{}}
		for _, n := range strings.Split(name, ",") {
			switch n {
			case "rates":
				cfg.Rates = true
			case "stamps":
				cfg.Stamps = true
			case "evict":
				cfg.Evict = true
			case "":
			default:
				f, err := ParseFault(n)
				if err != nil {
					t.Fatal(err)
				}
				cfg.Faults[f]++
			}
		}
		r, err := Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d states %d transitions depth %d %v complete %v", name, r.States, r.Transitions, r.Depth, r.Elapsed, r.Complete)
		if r.Violation != "" {
			t.Errorf("%s\n%s", r.Violation, r.Story)
		}
	}
}
