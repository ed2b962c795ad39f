package check

import (
	"fmt"
	"slices"

	"github.com/tenure-go/tenure/core"
)

// violated keeps the first violation.
func (w *world) violated(format string, args ...any) {
	if w.bad == "" {
		w.bad = fmt.Sprintf(format, args...)
	}
}

// judgeDecision looks at an effect when it was decided.
func (w *world) judgeDecision(i int, e core.Effect) {
	m := &w.machines[i]
	if _, fail := e.(core.Fail); m.ended && !fail {
		w.violated("S7: %s decides %T after its end", m.id, e)
	}
	switch e := e.(type) {
	case core.WriteLease:
		m.anchors = append(slices.Clip(m.anchors), anchor{seq: e.Lease.Seq, at: m.clock})
	case core.WriteOwner:
		if e.Evidence != nil {
			w.judgeTakeover(i, e)
		}
	case core.End:
		m.ended = true
		w.judgeEnd(i, e.Reason)
	}
}

// judgeTakeover: who is said to be dead must be so now.
func (w *world) judgeTakeover(i int, e core.WriteOwner) {
	j := w.running(e.Evidence.Node)
	if j < 0 {
		return
	}
	v := &w.machines[j]
	if e.Evidence.Rule == core.RuleReleased && v.state.Draining() && v.state.Counts().Owned == 0 {
		return // its lease lives on, but it serves nothing any more
	}
	if v.state.Held() && v.clock < v.state.AuthorityEnds() {
		w.violated("S3: %s takes %s over from %s, which has authority for %d more (rule %s)",
			w.machines[i].id, e.Cell, e.Evidence.Node, v.state.AuthorityEnds()-v.clock, e.Evidence.Rule)
	}
}

// judgeEnd: a node is fenced only if something happened that may cost it its
// authority; one operation that fails, or hangs, may not (L4). In units as coarse as
// these two take too much of the TTL.
func (w *world) judgeEnd(i int, why core.Reason) {
	used := func(f Fault) int { return w.cfg.Faults[f] - int(w.budget[f]) }
	failed := used(Lost) + used(Late) + used(Delay) + used(Refuse)
	if why.Fenced() && used(Pause) == 0 && used(Delete) == 0 && failed < 2 {
		w.violated("L4: %s is fenced (%s) though its lease was left alone and it was never stopped", w.machines[i].id, why)
	}
}

// judgeState looks at a process after a step.
func (w *world) judgeState(i int, lapsed bool) {
	m := &w.machines[i]
	if err := m.state.Check(); err != nil {
		w.violated("%s: %v", m.id, err)
	}
	if !m.state.Held() {
		return
	}
	if lapsed && !m.state.Draining() {
		w.violated("S5: the authority of %s had ended, and it goes on", m.id)
	}
	if m.state.AuthorityEnds() > m.end {
		w.violated("S5: %s takes itself to have authority until %d, but what the store has applied gives it until %d", m.id, m.state.AuthorityEnds(), m.end)
	}
}

// judgeBegin: a dispatch or an answer begins now.
func (w *world) judgeBegin(i int, r req) {
	m := &w.machines[i]
	switch {
	case r.epoch < w.begun[r.cell]:
		w.violated("S3: %s serves %s at epoch %d, after epoch %d has begun", m.id, cellNames[r.cell], r.epoch, w.begun[r.cell])
	case m.clock >= m.end:
		w.violated("S3: %s serves %s without authority", m.id, cellNames[r.cell])
	}
	w.begun[r.cell] = max(w.begun[r.cell], r.epoch)
}

// judgeWrite: an ownership record is replaced (S1, S2, S6).
func (w *world) judgeWrite(o op, e core.WriteOwner, old record) {
	switch {
	case e.Owner.Node != "" && e.Owner.Epoch != old.Epoch+1:
		w.violated("S2: %s is acquired by %s at epoch %d after epoch %d", e.Cell, o.node, e.Owner.Epoch, old.Epoch)
	case e.Owner.Node == "" && e.Owner.Epoch != old.Epoch:
		w.violated("S2: %s is released at epoch %d, but is at %d", e.Cell, e.Owner.Epoch, old.Epoch)
	case e.Owner.Node == "" && old.Node != o.node:
		w.violated("S6: %s releases %s, whose record says %q", o.node, e.Cell, old.Node)
	}
}

// judgeMoment: at any instant at most one node may begin (S3).
func (w *world) judgeMoment() {
	for c := range w.cells {
		owner := -1
		for i := range w.machines {
			m := &w.machines[i]
			if m.state == nil || !m.state.Held() || m.clock >= m.state.AuthorityEnds() {
				continue
			}
			if v, _ := m.state.Cell(cellNames[c]); !v.Local {
				continue
			}
			if owner >= 0 {
				w.violated("S3: %s and %s both own %s now", w.machines[owner].id, m.id, cellNames[c])
			}
			owner = i
		}
	}
}

// judgeWaits: nothing more happens at this instant, so whoever waits must have
// time left (L1).
func (w *world) judgeWaits() {
	for i := range w.machines {
		m := &w.machines[i]
		if !w.live(i) {
			continue
		}
		for _, r := range m.reqs {
			if !r.failed && m.clock >= r.deadline {
				w.violated("L1: a request on %s for %s is not answered in time", m.id, cellNames[r.cell])
			}
		}
	}
}
