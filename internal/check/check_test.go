package check

import (
	"testing"
	"time"
)

// The smallest fleet is searched to its end, and always to the same one, whoever of
// the workers comes first.
func TestNothingIsLeft(t *testing.T) {
	var first Report
	for _, workers := range []int{1, 3} {
		r, err := Run(Config{Nodes: 2, Cells: 1, Requests: 2, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if r.Violation != "" {
			t.Fatalf("%s\n%s", r.Violation, r.Story)
		}
		if !r.Complete || r.States < 10_000 {
			t.Errorf("%d workers: %+v", workers, r)
		}
		if first.States == 0 {
			first = r
		}
		if r.States != first.States || r.Transitions != first.Transitions || r.Depth != first.Depth {
			t.Errorf("%d workers saw %d states and %d transitions, one saw %d and %d", workers, r.States, r.Transitions, first.States, first.Transitions)
		}
	}
}

// Larger ones are searched for a while; each kind of fault happens.
func TestFaults(t *testing.T) {
	for f := range faults {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			r, err := Run(Config{
				Nodes: 2, Cells: 1, Requests: 2, Faults: map[Fault]int{f: 1}, Evict: true, Workers: 1,
				MaxStates: 15_000,
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Violation != "" {
				t.Fatalf("%s\n%s", r.Violation, r.Story)
			}
			if r.Complete {
				t.Errorf("there is no more to see than %d states", r.States)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	cfg := Config{Nodes: 3, Cells: 2, Requests: 3, Faults: map[Fault]int{Crash: 2, Pause: 2}, MaxTime: 50 * time.Millisecond}
	var told int
	cfg.Progress = func(Report) { told++ }
	r, err := Run(cfg)
	if err != nil || r.Complete || r.Violation != "" || r.Elapsed > 20*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
	if told == 0 {
		t.Error("nothing was told of the progress")
	}
	for _, bad := range []Config{{Nodes: 4, Cells: 1, Requests: 1}, {Nodes: 2, Requests: 1}, {Nodes: 1, Cells: 1}} {
		if _, err := Run(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
