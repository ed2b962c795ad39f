package check

import (
	"slices"
	"strconv"

	"github.com/tenure-go/tenure/core"
)

// world is one state of everything. It is never changed once it was seen: a
// choice is made on a copy, which shares what it does not change.
type world struct {
	cfg      *Config
	now      core.Time // real time
	machines []machine
	cells    []record // what the bucket says of each cell
	leases   []*lease // that exist; none is ever written to
	flight   []op
	budget   [faults]int8
	begun    []core.Epoch // per cell, the highest at which something began
	versions int          // given out
	// gone are sessions that have ended and that something may still lead to.
	gone []core.NodeID

	bad   string // the first violation
	story *story // nil: not told
}

// machine runs one process after the other.
type machine struct {
	state *core.State // nil: no process runs
	id    core.NodeID
	life  int // identities used so far
	clock core.Time
	// frozen: the process is stopped. todo is what it had decided before and not
	// begun to do.
	frozen bool
	todo   []core.Effect
	reqs   []req

	// The truth about its lease: end is when the authority is over that the store has
	// applied, counted from when each write was decided (anchors).
	end     core.Time
	anchors []anchor
	ended   bool // End was decided

	form *core.Canon // of the state at this clock; nil: not made yet
}

type anchor struct {
	seq uint64
	at  core.Time
}

// req is one request in the hands of a node.
type req struct {
	id       core.RequestID
	cell     int
	running  bool
	failed   bool // while it ran: Done is to come
	epoch    core.Epoch
	deadline core.Time
	// from is where it was forwarded from; nil for a client's.
	from *origin
}

// origin is a request as its sender knows it.
type origin struct {
	machine int
	node    core.NodeID
	id      core.RequestID
}

// record is an ownership record; no version: absent.
type record struct {
	core.Owner
	version core.Version
}

// lease is a lease record.
type lease struct {
	core.Lease
	version  core.Version
	modified core.Time
}

// op is something that is under way between a process and the store or a peer.
type op struct {
	machine int
	node    core.NodeID // the session that began it
	effect  core.Effect
	// slow: it may take any time, by a fault. orphan: nobody hears of its end.
	slow, orphan bool
	// done: the store has carried it out, and event is its answer.
	done  bool
	event core.Event
	// to is the request that was forwarded and whose end this is; 0: none.
	to core.RequestID
}

func newWorld(cfg *Config) *world {
	w := &world{cfg: cfg, cells: make([]record, cfg.Cells), begun: make([]core.Epoch, cfg.Cells)}
	w.machines = make([]machine, cfg.Nodes)
	for f := range faults {
		w.budget[f] = int8(cfg.Faults[f])
	}
	return w
}

// copy is a world that may be changed. Slices within a machine are replaced, never
// written to.
func (w *world) copy() *world {
	n := *w
	n.machines = slices.Clone(w.machines)
	n.cells = slices.Clone(w.cells)
	n.leases = slices.Clone(w.leases)
	n.flight = slices.Clone(w.flight)
	n.begun = slices.Clone(w.begun)
	return &n
}

func (w *world) up(i int) bool   { return w.machines[i].state != nil }
func (w *world) live(i int) bool { return w.up(i) && !w.machines[i].frozen }

// running finds the machine whose process is that session; -1 if there is none.
func (w *world) running(id core.NodeID) int {
	for i := range w.machines {
		if w.up(i) && w.machines[i].id == id {
			return i
		}
	}
	return -1
}

func (w *world) version() core.Version {
	w.versions++
	return core.Version(strconv.Itoa(w.versions))
}

var cellNames = [...]core.CellName{"x", "y"}

func cellIndex(name core.CellName) int { return slices.Index(cellNames[:], name) }

// nodeID tells the machine and which of its identities it is.
func nodeID(machine, life int) core.NodeID {
	return core.NodeID([]byte{'A' + byte(machine), '0' + byte(life)})
}

func machineOf(id core.NodeID) (machine, life int) { return int(id[0] - 'A'), int(id[1] - '0') }

func (m *machine) request(id core.RequestID) int {
	return slices.IndexFunc(m.reqs, func(r req) bool { return r.id == id })
}

// setRequest replaces a request; drop removes one.
func (m *machine) setRequest(i int, r req) {
	m.reqs = slices.Clone(m.reqs)
	m.reqs[i] = r
}

func (m *machine) drop(i int) {
	m.reqs = slices.Concat(m.reqs[:i], m.reqs[i+1:])
}

// freeID is the lowest that is not in use; 1 is for a client's request.
func (m *machine) freeID() core.RequestID {
	id := core.RequestID(2)
	for m.request(id) >= 0 {
		id++
	}
	return id
}

// remove takes an operation out of the flight.
func (w *world) remove(i int) op {
	o := w.flight[i]
	w.flight = slices.Delete(w.flight, i, i+1)
	return o
}
