package sim

import (
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/tenure-go/tenure/core"
)

// record is one request in the history of its cell. The application answers with
// the epoch and the request that it ran before. An outcome that the client does not
// know counts from the call to the end of time, if the application ran it at all.
type record struct {
	id            uint64
	cell          core.CellName
	called, acked int64 // acked 0: never
	executed      bool
	refused       bool // its client was told that it was not run
	epoch         core.Epoch
	prior         uint64
}

// history is all requests, by cell.
type history struct {
	last  uint64
	cells map[core.CellName][]*record
}

func (h *history) init() { h.cells = map[core.CellName][]*record{} }

func (h *history) begin(cell core.CellName, at int64) *record {
	h.last++
	r := &record{id: h.last, cell: cell, called: at}
	h.cells[cell] = append(h.cells[cell], r)
	return r
}

func (w *world) ack(r *record) {
	if r.acked = w.t; !r.executed || r.refused {
		w.violated("L1", "request %d for %s was answered, and did not run: %+v", r.id, r.cell, *r)
	}
}

// register is what a cell is to its clients: a register that is void at each new
// epoch.
type register struct {
	epoch core.Epoch
	last  uint64
}

var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		s, r := state.(register), input.(*record)
		prior := s.last
		if r.epoch > s.epoch {
			prior = 0
		}
		return r.epoch >= s.epoch && r.prior == prior, register{r.epoch, r.id}
	},
}

// checkHistory has the history of each cell judged as a whole.
func (w *world) checkHistory() {
	for i := range w.cfg.Cells {
		name := w.cell(i)
		records := w.history.cells[name]
		if w.bad != nil || len(records) == 0 {
			continue
		}
		if !linearizable(records) {
			w.violated("linearizability", "the answers for %s fit no order: %s", name, tell(records))
		}
	}
}

func linearizable(records []*record) bool {
	var ops []porcupine.Operation
	for _, r := range records {
		if !r.executed {
			continue
		}
		op := porcupine.Operation{ClientId: len(ops), Input: r, Call: r.called, Return: endless}
		if r.acked > 0 {
			op.Return = r.acked
		}
		ops = append(ops, op)
	}
	return porcupine.CheckOperations(model, ops)
}

// tell lists the last of what ran.
func tell(records []*record) string {
	ran := slices.DeleteFunc(slices.Clone(records), func(r *record) bool { return !r.executed })
	text := ""
	for _, r := range ran[max(0, len(ran)-40):] {
		text += r.String() + "\n"
	}
	return text
}
