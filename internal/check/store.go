package check

import (
	"slices"

	"github.com/tenure-go/tenure/core"
)

// perform carries an operation out at the store, and returns the answer.
func (w *world) perform(o op) core.Event {
	switch e := o.effect.(type) {
	case core.WriteLease:
		return w.writeLease(o, e)
	case core.WriteOwner:
		return w.writeOwner(o, e)
	case core.ReadLease:
		ev := core.LeaseRead{Op: e.Op, Node: e.Node, Outcome: core.Absent, Stamps: w.stamps()}
		if i := w.leaseOf(e.Node); i >= 0 {
			ev.Outcome, ev.Lease, ev.Version = core.Found, w.leases[i].Lease, w.leases[i].version
			ev.Stamps.Modified, ev.Stamps.HasModified = w.leases[i].modified, w.cfg.Stamps
		}
		return ev
	case core.ListLeases:
		ev := core.LeasesListed{Op: e.Op}
		for _, l := range w.leases {
			ev.Nodes = append(ev.Nodes, l.Node)
		}
		near := fromHere(o.node, w.cfg.Nodes)
		slices.SortFunc(ev.Nodes, func(a, b core.NodeID) int { return near(a) - near(b) })
		return ev
	case core.ReadOwner:
		r := w.cells[cellIndex(e.Cell)]
		ev := core.OwnerRead{Op: e.Op, Cell: e.Cell, Outcome: core.Absent}
		if r.version != "" {
			ev.Outcome, ev.Owner, ev.Version = core.Found, r.Owner, r.version
		}
		return ev
	}
	panic("check: the store does not do that")
}

func (w *world) stamps() core.Stamps {
	return core.Stamps{Date: w.now, HasDate: w.cfg.Stamps}
}

func (w *world) leaseOf(id core.NodeID) int {
	return slices.IndexFunc(w.leases, func(l *lease) bool { return l.Node == id })
}

func (w *world) writeLease(o op, e core.WriteLease) core.Event {
	ev := core.LeaseWritten{Op: e.Op, Outcome: core.Rejected, Stamps: w.stamps()}
	at := w.leaseOf(e.Lease.Node)
	if at < 0 && e.Expect != "" || at >= 0 && w.leases[at].version != e.Expect {
		return ev
	}
	l := &lease{Lease: e.Lease, version: w.version(), modified: w.now}
	if at < 0 {
		w.leases = append(w.leases, l)
	} else {
		w.leases[at] = l
	}
	if m := &w.machines[o.machine]; m.state != nil && m.id == o.node {
		w.leaseApplied(m, e.Lease)
	}
	ev.Outcome, ev.Version = core.Applied, l.version
	return ev
}

// leaseApplied: from here on the node may have authority from when it had decided
// to send that write.
func (w *world) leaseApplied(m *machine, l core.Lease) {
	for _, a := range m.anchors {
		if a.seq == l.Seq && !l.Released {
			s := w.cfg.settings()
			m.end = max(m.end, a.at+s.TTL-s.Slack)
		}
	}
}

func (w *world) writeOwner(o op, e core.WriteOwner) core.Event {
	i := cellIndex(e.Cell)
	ev := core.OwnerWritten{Op: e.Op, Cell: e.Cell, Outcome: core.Rejected}
	if w.cells[i].version != e.Expect {
		return ev
	}
	w.judgeWrite(o, e, w.cells[i])
	w.cells[i] = record{Owner: e.Owner, version: w.version()}
	ev.Outcome, ev.Version = core.Applied, w.cells[i].version
	return ev
}

// refused is the answer to an operation that the store did not take.
func refused(e core.Effect, contended bool) core.Event {
	outcome := core.NotApplied
	if contended {
		outcome = core.Contended
	}
	switch e := e.(type) {
	case core.WriteLease:
		return core.LeaseWritten{Op: e.Op, Outcome: outcome}
	case core.WriteOwner:
		return core.OwnerWritten{Op: e.Op, Cell: e.Cell, Outcome: outcome}
	case core.ReadLease:
		return core.LeaseRead{Op: e.Op, Node: e.Node}
	case core.ReadOwner:
		return core.OwnerRead{Op: e.Op, Cell: e.Cell}
	case core.ListLeases:
		return core.LeasesListed{Op: e.Op}
	}
	return nil
}
