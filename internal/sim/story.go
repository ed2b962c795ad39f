package sim

import (
	"context"
	"fmt"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

func (w *world) background() context.Context { return context.Background() }

func (r *record) String() string {
	return fmt.Sprintf("  request %d, called %d, acknowledged %d: at epoch %d, after request %d", r.id, r.called, r.acked, r.epoch, r.prior)
}

// tell adds a step to the story.
func (p *proc) tell(d node.Decision) {
	p.w.logf("%s (%d) < %T%+v", p.name, d.Now, d.Event, d.Event)
	for _, e := range d.Effects {
		if o, is := e.(core.WriteOwner); is && o.Evidence != nil {
			p.w.logf("%s     because %+v", p.name, *o.Evidence)
		}
		p.w.logf("%s     > %T%+v", p.name, e, e)
	}
}

// digestStep takes a decision into the hash of the run.
func (w *world) digestStep(p *proc, d node.Decision) {
	h := &w.hash
	h.number(uint64(w.t))
	h.text(p.name)
	h.event(d.Event)
	for _, e := range d.Effects {
		h.effect(e)
	}
}

func (d *digest) kind(k uint64, op core.OpID) {
	d.number(k)
	d.number(uint64(op))
}

func (d *digest) event(ev core.Event) {
	switch ev := ev.(type) {
	case core.Start:
		d.number(1)
	case core.Minted:
		d.kind(2, ev.Op)
		d.text(string(ev.Node))
	case core.LeaseWritten:
		d.kind(3, ev.Op)
		d.number(uint64(ev.Outcome))
		d.stamps(ev.Stamps)
	case core.LeaseRead:
		d.kind(4, ev.Op)
		d.number(uint64(ev.Outcome))
		d.text(string(ev.Node) + " " + string(ev.Version))
		d.stamps(ev.Stamps)
	case core.LeasesListed:
		d.kind(5, ev.Op)
		d.number(uint64(len(ev.Nodes)))
	case core.OwnerRead:
		d.kind(6, ev.Op)
		d.number(uint64(ev.Outcome))
		d.text(string(ev.Cell) + " " + string(ev.Version))
		d.owner(ev.Owner)
	case core.OwnerWritten:
		d.kind(7, ev.Op)
		d.number(uint64(ev.Outcome))
		d.text(string(ev.Cell))
	default:
		d.request(ev)
	}
}

func (d *digest) request(ev core.Event) {
	switch ev := ev.(type) {
	case core.Activated:
		d.kind(8, ev.Op)
		d.flag(ev.OK)
	case core.Deactivated:
		d.kind(9, ev.Op)
	case core.Arrive:
		d.kind(10, core.OpID(ev.ID))
		d.text(string(ev.Cell))
		d.number(uint64(ev.Deadline))
	case core.Ready:
		d.kind(11, core.OpID(ev.ID))
	case core.Done:
		d.kind(12, core.OpID(ev.ID))
	case core.Late:
		d.kind(13, core.OpID(ev.ID))
	case core.Gone:
		d.kind(14, core.OpID(ev.ID))
	case core.ForwardFailed:
		d.kind(15, core.OpID(ev.ID))
		d.number(uint64(ev.How))
	case core.Probed:
		d.kind(16, ev.Op)
		d.flag(ev.OK)
	case core.Evict:
		d.number(17)
		d.text(string(ev.Cell))
	case core.Drain:
		d.number(18)
	case core.Tick:
		d.number(19)
	}
}

func (d *digest) stamps(s core.Stamps) {
	d.number(uint64(s.Date))
	d.number(uint64(s.Modified))
}

func (d *digest) owner(o core.Owner) {
	d.number(uint64(o.Epoch))
	d.text(string(o.Node))
}

func (d *digest) effect(e core.Effect) {
	switch e := e.(type) {
	case core.Mint:
		d.kind(31, e.Op)
	case core.WriteLease:
		d.kind(32, e.Op)
		d.number(e.Lease.Seq)
		d.number(uint64(e.Deadline))
		d.text(string(e.Expect))
	case core.ReadLease:
		d.kind(33, e.Op)
		d.text(string(e.Node))
		d.number(uint64(e.Deadline))
	case core.ListLeases:
		d.kind(34, e.Op)
	case core.ReadOwner:
		d.kind(35, e.Op)
		d.text(string(e.Cell))
	case core.WriteOwner:
		d.kind(36, e.Op)
		d.text(string(e.Cell) + " " + string(e.Expect))
		d.owner(e.Owner)
	case core.Activate:
		d.kind(37, e.Op)
		d.text(string(e.Cell))
	case core.Deactivate:
		d.kind(38, e.Op)
		d.text(string(e.Cell) + " " + string(e.Reason))
	default:
		d.decision(e)
	}
}

func (d *digest) decision(e core.Effect) {
	switch e := e.(type) {
	case core.Probe:
		d.kind(39, e.Op)
		d.text(string(e.Node))
	case core.Dispatch:
		d.kind(40, core.OpID(e.ID))
		d.number(uint64(e.Epoch))
		d.number(uint64(e.NotAfter))
	case core.Forward:
		d.kind(41, core.OpID(e.ID))
		d.text(string(e.Node))
	case core.Answer:
		d.kind(42, core.OpID(e.ID))
		d.number(uint64(e.NotAfter))
	case core.Fail:
		d.kind(43, core.OpID(e.ID))
		d.text(string(e.Failure.Code))
	case core.Abort:
		d.kind(44, core.OpID(e.ID))
	case core.End:
		d.number(45)
		d.text(string(e.Reason))
	}
}
