package check

import (
	"bytes"
	"slices"

	"github.com/tenure-go/tenure/core"
)

// former makes canonical forms of worlds. Two worlds that differ only in names,
// among them which machine is which, have the same form.
type former struct {
	buf      []byte
	w        *world
	order    []int // machine → its place in the form
	versions []core.Version
	best     []byte
	ops      [][]byte
	orders   [][]int
	scratch  core.Canon
	ofOps    []core.OpID // names of the operations of the machine at hand
}

func newFormer(cfg *Config) *former {
	f := &former{orders: rotations(cfg.Nodes)}
	if cfg.Rates { // the machines differ
		f.orders = f.orders[:1]
	}
	return f
}

// node names a session: by its machine, and how many identities ago it was.
func (f *former) node(id core.NodeID) byte {
	m, life := machineOf(id)
	return byte(f.order[m]<<4 | (f.w.machines[m].life - life))
}

// epoch names an epoch of a cell by where it stands to that in the bucket.
func (f *former) epoch(name core.CellName, e core.Epoch) byte {
	switch now := f.w.cells[cellIndex(name)].Epoch; {
	case e > now:
		return byte(1 + e - now)
	case e == now:
		return 1
	}
	return 0
}

func (f *former) opName(op core.OpID) byte { return byte(slices.Index(f.ofOps, op) + 1) }

func (f *former) number(n int64) {
	for ; n > 0x7f; n >>= 7 {
		f.buf = append(f.buf, byte(n)|0x80)
	}
	f.buf = append(f.buf, byte(n))
}

// rotations of 0 to n-1, the identity first. They leave alone how far a machine is
// from another, by which nodes sort each other (fromHere); other permutations would
// not, and would have to sort what each node has anew.
func rotations(n int) [][]int {
	all := make([][]int, n)
	for by := range n {
		for i := range n {
			all[by] = append(all[by], (i+by)%n)
		}
	}
	return all
}

// version names a version by when it first appears in the form.
func (f *former) version(v core.Version) byte {
	i := slices.Index(f.versions, v)
	if i < 0 {
		i = len(f.versions)
		f.versions = append(f.versions, v)
	}
	return byte(i)
}

// form returns the least of the forms that the world has with its machines in each
// order. It is valid until the next call.
func (f *former) form(w *world) []byte {
	f.w = w
	f.best = f.best[:0]
	for n, order := range f.orders {
		f.order = order
		f.buf, f.versions = f.buf[:0], f.versions[:0]
		f.world()
		if n == 0 || bytes.Compare(f.buf, f.best) < 0 {
			f.best, f.buf = f.buf, f.best
		}
	}
	return f.best
}

func (f *former) world() {
	w := f.w
	for _, b := range w.budget {
		f.buf = append(f.buf, byte(b))
	}
	if w.cfg.Rates {
		f.number(int64(w.now % w.cfg.settings().TTL))
	}
	for i, r := range w.cells {
		f.record(r)
		f.number(int64(min(r.Epoch-w.begun[i], 2)))
	}
	f.leases()
	for place := range w.machines {
		f.machine(slices.Index(f.order, place))
	}
}

func (f *former) record(r record) {
	if r.version == "" {
		f.buf = append(f.buf, 0xff)
		return
	}
	f.buf = append(f.buf, f.version(r.version), f.name(r.Node))
}

// name of a node, or of nobody.
func (f *former) name(id core.NodeID) byte {
	if id == "" {
		return 0xfe
	}
	return f.node(id)
}

func (f *former) leases() {
	sorted := slices.Clone(f.w.leases)
	slices.SortFunc(sorted, func(a, b *lease) int { return int(f.node(a.Node)) - int(f.node(b.Node)) })
	f.number(int64(len(sorted)))
	for _, l := range sorted {
		f.lease(l)
	}
}

func (f *former) lease(l *lease) {
	f.buf = append(f.buf, f.node(l.Node), f.version(l.version), flag(l.Released))
	if f.w.cfg.Stamps {
		f.age(f.w.now-l.modified, 3)
	}
}

// age appends how long ago something was, as far as it matters.
func (f *former) age(d core.Time, more core.Time) {
	s := f.w.cfg.settings()
	f.number(int64(min(d, s.TTL+s.Slack+s.OpDeadline+more)))
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (f *former) machine(i int) {
	m := &f.w.machines[i]
	f.ofOps = nil
	f.buf = append(f.buf, flag(m.state != nil)<<2|flag(m.frozen)<<1|flag(m.ended))
	if m.state != nil {
		f.state(m)
		f.number(int64(max(0, m.end-m.clock)))
		f.number(int64(len(m.todo)))
		for _, e := range m.todo {
			f.effect(i, e)
		}
		f.number(int64(len(m.reqs)))
		for _, r := range m.reqs {
			f.request(r)
		}
	}
	f.flight(i)
}

// state appends the form of a machine's State, which is made once, and fills in the
// names.
func (f *former) state(m *machine) {
	if m.form == nil {
		c := &f.scratch
		*c = core.Canon{Now: m.clock, Store: f.w.now, Order: fromHere(m.id, f.w.cfg.Nodes), Buf: c.Buf[:0], Names: c.Names[:0], Ops: c.Ops[:0]}
		m.state.Canon(c)
		m.form = &core.Canon{Buf: slices.Clone(c.Buf), Names: slices.Clone(c.Names), Ops: slices.Clone(c.Ops)}
	}
	start := len(f.buf)
	f.buf = append(f.buf, m.form.Buf...)
	for i := range m.form.Names {
		n := &m.form.Names[i]
		at := start + n.At
		switch {
		case n.Node != "":
			f.buf[at] = f.node(n.Node)
		case n.Version != "":
			f.buf[at] = f.version(n.Version)
		default:
			f.buf[at] = f.epoch(n.Cell, n.Epoch)
		}
	}
	f.ofOps = m.form.Ops
}

// fromHere sorts nodes by how far their machines are from a node's own, which stays
// the same when the machines change places all together.
func fromHere(id core.NodeID, nodes int) func(core.NodeID) int {
	if id == "" {
		id = "A0"
	}
	here, _ := machineOf(id)
	return func(id core.NodeID) int {
		m, life := machineOf(id)
		return (m-here+nodes)%nodes<<8 | life
	}
}

func (f *former) request(r req) {
	f.buf = append(f.buf, byte(r.id), byte(r.cell), flag(r.running)<<1|flag(r.failed))
	if r.running {
		f.buf = append(f.buf, f.epoch(cellNames[r.cell], r.epoch))
	}
	if r.from == nil {
		f.buf = append(f.buf, 0xff)
		return
	}
	f.buf = append(f.buf, f.node(r.from.node), byte(r.from.id))
}

// flight appends what a machine has under way, in an order of its own: which was
// sent first does not count.
func (f *former) flight(i int) {
	f.ops = f.ops[:0]
	start := len(f.buf)
	for k := range f.w.flight {
		if o := &f.w.flight[k]; o.machine == i {
			f.op(i, o)
			f.ops = append(f.ops, slices.Clone(f.buf[start:]))
			f.buf = f.buf[:start]
		}
	}
	slices.SortFunc(f.ops, bytes.Compare)
	f.number(int64(len(f.ops)))
	for _, o := range f.ops {
		f.buf = append(f.buf, o...)
	}
}

func (f *former) op(i int, o *op) {
	f.buf = append(f.buf, flag(o.slow)<<2|flag(o.orphan)<<1|flag(o.done), f.node(o.node), byte(o.to))
	if o.effect != nil {
		f.effect(i, o.effect)
	}
	if o.done {
		f.event(o.event)
	}
}

// effect appends what distinguishes an effect that is still to be carried out.
func (f *former) effect(i int, e core.Effect) {
	m := &f.w.machines[i]
	until := func(t core.Time) { f.number(int64(max(0, t-m.clock))) }
	switch e := e.(type) {
	case core.WriteLease:
		f.buf = append(f.buf, 1, f.opName(e.Op), f.node(e.Lease.Node), f.versionOr(e.Expect), flag(e.Lease.Released))
		f.anchor(m, e.Lease)
		until(e.Deadline)
		until(e.NotAfter)
	case core.ReadLease:
		f.buf = append(f.buf, 2, f.opName(e.Op), f.node(e.Node))
	case core.ListLeases:
		f.buf = append(f.buf, 3, f.opName(e.Op))
	case core.ReadOwner:
		f.buf = append(f.buf, 4, f.opName(e.Op), byte(cellIndex(e.Cell)))
	case core.WriteOwner:
		f.buf = append(f.buf, 5, f.opName(e.Op), byte(cellIndex(e.Cell)), f.name(e.Owner.Node), f.epoch(e.Cell, e.Owner.Epoch), f.versionOr(e.Expect))
		until(min(e.Deadline, e.NotAfter))
	case core.Probe:
		f.buf = append(f.buf, 6, f.opName(e.Op), f.node(e.Node))
	case core.Forward:
		f.buf = append(f.buf, 7, byte(e.ID), byte(cellIndex(e.Cell)), f.node(e.Node))
	case core.Dispatch:
		f.buf = append(f.buf, 8, byte(e.ID), byte(cellIndex(e.Cell)), f.epoch(e.Cell, e.Epoch))
		until(e.NotAfter)
	case core.Answer:
		f.buf = append(f.buf, 9, byte(e.ID))
		until(e.NotAfter)
	case core.Fail:
		f.buf = append(f.buf, 10, byte(e.ID), flag(e.Failure.Code == core.CodeNotMine), flag(e.Failure.Ran))
	case core.Abort:
		f.buf = append(f.buf, 11, byte(e.ID))
	case core.Mint:
		f.buf = append(f.buf, 12, f.opName(e.Op))
	case core.Activate:
		f.buf = append(f.buf, 13, f.opName(e.Op), byte(cellIndex(e.Cell)))
	case core.Deactivate:
		f.buf = append(f.buf, 14, f.opName(e.Op), byte(cellIndex(e.Cell)))
	case core.End:
		f.buf = append(f.buf, 15)
	}
}

// anchor appends when a lease write was decided, for what it may give when it lands,
// and which of the writes it is that the node knows of.
func (f *former) anchor(m *machine, l core.Lease) {
	if m.id != l.Node || m.state == nil {
		f.buf = append(f.buf, 0xff)
		return
	}
	last := m.anchors[len(m.anchors)-1].seq
	for _, a := range m.anchors {
		if a.seq == l.Seq {
			f.number(int64(last - l.Seq))
			f.number(int64(min(m.clock-a.at, f.w.cfg.settings().TTL)))
		}
	}
}

func (f *former) versionOr(v core.Version) byte {
	if v == "" {
		return 0xff
	}
	return f.version(v)
}

// event appends an answer that is on its way.
func (f *former) event(ev core.Event) {
	stamps := func(st core.Stamps) {
		if f.w.cfg.Stamps {
			f.age(f.w.now-st.Date, 0)
			if st.HasModified {
				f.age(f.w.now-st.Modified, 3)
			}
		}
	}
	switch ev := ev.(type) {
	case core.LeaseWritten:
		f.buf = append(f.buf, byte(ev.Outcome), f.versionOr(ev.Version))
		stamps(ev.Stamps)
	case core.OwnerWritten:
		f.buf = append(f.buf, byte(ev.Outcome), f.versionOr(ev.Version))
	case core.LeaseRead:
		f.buf = append(f.buf, byte(ev.Outcome), f.versionOr(ev.Version), flag(ev.Lease.Released))
		stamps(ev.Stamps)
	case core.OwnerRead:
		f.buf = append(f.buf, byte(ev.Outcome), f.versionOr(ev.Version), f.name(ev.Owner.Node))
		if ev.Outcome == core.Found {
			f.buf = append(f.buf, f.epoch(ev.Cell, ev.Owner.Epoch))
		}
	case core.LeasesListed:
		f.number(int64(len(ev.Nodes)))
		for _, id := range ev.Nodes {
			f.buf = append(f.buf, f.node(id))
		}
	case core.Probed:
		f.buf = append(f.buf, flag(ev.OK))
	case core.Ready:
		f.buf = append(f.buf, 1)
	case core.ForwardFailed:
		f.buf = append(f.buf, 2, byte(ev.How), flag(ev.Refusal.Ran))
	}
}
