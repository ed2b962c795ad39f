//go:build unix

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// history is every answer that clients got.
type history []answer

func (h history) filter(keep func(answer) bool) history {
	var found history
	for _, a := range h {
		if keep(a) {
			found = append(found, a)
		}
	}
	return found
}

func (h history) of(cells ...string) history {
	return h.filter(func(a answer) bool { return slices.Contains(cells, a.cell) })
}

func (h history) without(cells ...string) history {
	return h.filter(func(a answer) bool { return !slices.Contains(cells, a.cell) })
}

// since are the answers to requests that ended after an event.
func (h history) since(event time.Time) history {
	return h.filter(func(a answer) bool { return a.end.After(event) })
}

// firstServed is when each cell was first answered at that epoch or a later
// one.
func (h history) firstServed(epoch uint64) map[string]time.Time {
	first := map[string]time.Time{}
	for _, a := range h {
		if at, ok := first[a.cell]; a.ok() && a.epoch >= epoch && (!ok || a.end.Before(at)) {
			first[a.cell] = a.end
		}
	}
	return first
}

// story tells the answers in order, relative to an event.
func (h history) story(event time.Time) string {
	sorted := slices.SortedFunc(slices.Values(h), func(a, b answer) int { return a.end.Compare(b.end) })
	var b strings.Builder
	for i, a := range sorted {
		if i == 60 {
			fmt.Fprintf(&b, "  … and %d more\n", len(sorted)-i)
			break
		}
		fmt.Fprintf(&b, "  %+6dms %v\n", a.end.Sub(event).Milliseconds(), a)
	}
	return b.String()
}

// codes counts the failures.
func (h history) codes() map[string]int {
	n := map[string]int{}
	for _, a := range h {
		if !a.ok() {
			n[a.problem.Code]++
		}
	}
	return n
}

// check judges all that must hold of any history: every answer is explained,
// none took too long, and each cell had one owner at a time, whose epoch and
// count never went back.
func (h history) check(t *testing.T) {
	t.Helper()
	t.Logf("%d answers, failures: %v", len(h), h.codes())
	bad := 0
	for _, a := range h {
		if err := a.explained(); err != nil {
			if bad++; bad <= 10 {
				t.Errorf("%v\n  in: %v", err, a)
			}
		}
	}
	if bad > 10 {
		t.Errorf("… and %d more", bad-10)
	}
	byCell := map[string]history{}
	for _, a := range h {
		byCell[a.cell] = append(byCell[a.cell], a)
	}
	for _, one := range byCell {
		one.checkOwner(t)
		one.checkOrder(t)
		one.checkCount(t)
	}
}

// checkOwner: S1, one node per epoch.
func (h history) checkOwner(t *testing.T) {
	t.Helper()
	at := map[uint64]answer{}
	for _, a := range h {
		if !a.ok() {
			continue
		}
		if b, ok := at[a.epoch]; ok && b.node != a.node {
			t.Errorf("S1: two nodes answer at one epoch:\n  %v\n  %v", b, a)
			return
		}
		at[a.epoch] = a
	}
}

// checkOrder: what begins after another answer was complete sees it: S3, and a
// counter that never goes back.
func (h history) checkOrder(t *testing.T) {
	t.Helper()
	served := h.filter(answer.ok)
	for _, a := range served {
		for _, b := range served {
			if !a.end.Before(b.start) {
				continue
			}
			if b.epoch < a.epoch {
				t.Errorf("S3: a later request was answered at an earlier epoch:\n  %v\n  %v", a, b)
				return
			}
			least := a.count
			if b.method == "POST" {
				least++
			}
			if b.epoch == a.epoch && b.count < least {
				t.Errorf("the count went back:\n  %v\n  %v", a, b)
				return
			}
		}
	}
}

// checkCount: within one epoch no more was counted than what may have been run.
// An "executed: no" must be true.
func (h history) checkCount(t *testing.T) {
	t.Helper()
	most := map[uint64]int64{} // the last count of an epoch
	seen := map[uint64]map[int64]bool{}
	sure, maybe := map[uint64]int64{}, int64(0)
	for _, a := range h {
		switch {
		case a.ok():
			most[a.epoch] = max(most[a.epoch], a.count)
			if a.method != "POST" {
				continue
			}
			sure[a.epoch]++
			if seen[a.epoch] == nil {
				seen[a.epoch] = map[int64]bool{}
			}
			if seen[a.epoch][a.count] {
				t.Errorf("two answers have the same count: %v", a)
			}
			seen[a.epoch][a.count] = true
		case a.method == "POST" && a.problem.Executed != "no":
			maybe++
		}
	}
	for epoch, n := range most {
		// One request may have been made before the history began.
		if n > sure[epoch]+maybe+1 {
			t.Errorf("cell %s counted %d at epoch %d, though only %d requests were answered, %d may have run, and the others say they were not executed",
				h[0].cell, n, epoch, sure[epoch], maybe)
		}
	}
}

// checkUndisturbed wants every answer to be a good one, at epoch 1.
func (h history) checkUndisturbed(t *testing.T) {
	t.Helper()
	bad := h.filter(func(a answer) bool { return !a.ok() || a.epoch != 1 })
	for i, a := range bad {
		if i == 5 {
			t.Errorf("… and %d more", len(bad)-i)
			break
		}
		t.Errorf("a cell whose owner lives was disturbed: %v", a)
	}
}

// checkRetryAfter: whoever comes back to a node when it said so, is served. late
// allows for a claim and a busy machine.
func (h history) checkRetryAfter(t *testing.T, late time.Duration) {
	t.Helper()
	type teller struct{ cell, via string }
	told := map[teller]time.Time{}
	for _, a := range h {
		k := teller{a.cell, a.via}
		if at, ok := told[k]; a.problem.Code == "owner-unreachable" && (!ok || a.comeBack().Before(at)) {
			told[k] = a.comeBack()
		}
	}
	for _, a := range h {
		if at, ok := told[teller{a.cell, a.via}]; ok && a.start.After(at.Add(late)) && !a.ok() {
			t.Errorf("a client that came back %v after its Retry-After was not served: %v", a.start.Sub(at), a)
		}
	}
}
