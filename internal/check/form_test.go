package check

import (
	"maps"
	"testing"
)

// Two worlds of equal form must have equal futures, or the search takes a state for
// seen that is not: so what is reached a second time is looked at again, and must
// lead to the same forms.
func TestEqualFormsHaveEqualFutures(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    Config
		states int
		every  int // which of the states reached again are looked at
	}{
		{"no fault", Config{Nodes: 2, Cells: 1, Requests: 2}, 8000, 1},
		{"three nodes", Config{Nodes: 3, Cells: 1, Requests: 1}, 3000, 1},
		{"two cells", Config{Nodes: 2, Cells: 2, Requests: 2, Evict: true}, 6000, 2},
		{"crash and pause", Config{Nodes: 2, Cells: 1, Requests: 2, Faults: map[Fault]int{Crash: 1, Pause: 1}}, 12000, 4},
		{"slow", Config{Nodes: 2, Cells: 1, Requests: 2, Faults: map[Fault]int{Late: 1, Delay: 1, Delete: 1}}, 12000, 4},
		{"stamps", Config{Nodes: 2, Cells: 1, Requests: 1, Stamps: true, Faults: map[Fault]int{Late: 1, Drain: 1}}, 8000, 2},
		{"rates", Config{Nodes: 2, Cells: 1, Requests: 1, Rates: true, Evict: true, Faults: map[Fault]int{Cut: 1, Refuse: 1}}, 8000, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkFutures(t, &c.cfg, c.states, c.every)
		})
	}
}

func checkFutures(t *testing.T, cfg *Config, most, every int) {
	former := newFormer(cfg)
	futures := map[string]map[string]bool{}
	future := func(w *world) (map[string]bool, []*world) {
		forms, next := map[string]bool{}, []*world{}
		for _, c := range w.choices(nil) {
			n := w.make(c)
			forms[string(former.form(n))+n.bad] = true
			next = append(next, n)
		}
		return forms, next
	}
	again := 0
	for queue := []*world{newWorld(cfg)}; len(queue) > 0 && len(futures) < most; queue = queue[1:] {
		w := queue[0]
		form := string(former.form(w))
		known, seen := futures[form]
		if again++; seen && again%every != 0 {
			continue
		}
		forms, next := future(w)
		if !seen {
			futures[form] = forms
			queue = append(queue, next...)
		} else if !maps.Equal(known, forms) {
			t.Fatalf("two states have the same form and lead to other forms: %d, of which %d are known, and %d", len(known), common(known, forms), len(forms))
		}
	}
	if len(futures) < 2000 {
		t.Errorf("only %d states were seen", len(futures))
	}
}

func common(a, b map[string]bool) (n int) {
	for f := range a {
		if b[f] {
			n++
		}
	}
	return n
}
