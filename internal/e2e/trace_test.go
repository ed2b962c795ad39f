//go:build unix

package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// traced makes each node record a trace, in the folder in which its process runs.
var traced = []string{"--trace", "trace.jsonl"}

func (n *node) trace() string { return filepath.Join(n.cmd.Dir, "trace.jsonl") }

// replay runs "tenure replay" on the node's trace, which may still be written, and
// wants it to be identical.
func (n *node) replay(t *testing.T, flags ...string) *process {
	t.Helper()
	p := start(t, "replay of "+n.name, nil, append([]string{"replay", n.trace()}, flags...)...)
	if code := p.exit(t, time.Minute); code != 0 {
		t.Errorf("the replay of %s exited with %d", n.name, code)
	}
	if len(p.out.with(" replayed, identical")) != 1 || len(p.out.with("missing")) > 0 {
		t.Errorf("the replay of %s does not say that it is identical:\n%s", n.name, p.out.text())
	}
	return p
}

// checkTakeoverStory wants the trace of the node that took a cell over to tell it:
// the evidence, the claim, and what follows, in this order.
func checkTakeoverStory(t *testing.T, taker, victim *node, cell string) {
	t.Helper()
	p := taker.replay(t, "--explain", "--cell", cell)
	from := 0
	lines := p.out.lines()
	find := func(want string) string {
		t.Helper()
		pattern := regexp.MustCompile(want)
		for i, line := range lines[from:] {
			if pattern.MatchString(line) {
				from += i
				return line
			}
		}
		t.Errorf("%s: after line %d the story of %s has nothing like %q:\n%s", taker.name, from, cell, want, p.out.text())
		return ""
	}
	id := regexp.QuoteMeta(victim.id())
	name := regexp.QuoteMeta(cell)
	find(fmt.Sprintf("the record of %s says: %s at epoch 1", name, id))
	verdict := find(fmt.Sprintf(`the lease of %s was read: .*, so it is dead \(rule (unchanged|age): `, id))
	find(fmt.Sprintf(`it claims epoch 2 of %s, if the record still has version .*, replacing %s, which is dead \(rule (unchanged|age): `, name, id))
	find("the claim of epoch 2 was applied")
	find(fmt.Sprintf("it prepares %s at epoch 2, taken over from %s", name, id))
	find(fmt.Sprintf("the application is ready for %s", name))
	find(fmt.Sprintf("it dispatches request [0-9]+ to %s at epoch 2, not after", name))
	if m := regexp.MustCompile(`rule unchanged: .* unchanged for ([^,]+), and ttl \+ slack = (.+) is enough`).FindStringSubmatch(verdict); m != nil {
		saw, err1 := time.ParseDuration(m[1])
		limit, err2 := time.ParseDuration(m[2])
		if err1 != nil || err2 != nil || limit != ttl+ttl/20 || saw < limit || saw > limit+2*time.Second {
			t.Errorf("the evidence is %q, want at least %v", verdict, ttl+ttl/20)
		}
	} else if !strings.Contains(verdict, "rule age") {
		t.Errorf("a verdict without its evidence: %q", verdict)
	}
}

// checkTraces replays the traces of a fleet in which one node was killed.
func checkTraces(t *testing.T, f *fleet, victim *node, h history, lost []string) {
	t.Helper()
	victim.replay(t)
	byID := map[string]*node{}
	for _, n := range f.nodes {
		byID[n.id()] = n
	}
	told := map[*node]bool{}
	for _, cell := range lost {
		served := h.of(cell).filter(answer.ok)
		if len(served) == 0 {
			continue // said elsewhere
		}
		taker := byID[served[len(served)-1].node]
		if !told[taker] {
			told[taker] = true
			checkTakeoverStory(t, taker, victim, cell)
		}
	}
	if len(told) == 0 {
		t.Error("no trace tells of a takeover")
	}
}
