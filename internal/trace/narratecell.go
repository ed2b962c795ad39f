package trace

import (
	"fmt"
	"slices"

	"github.com/tenure-go/tenure/core"
)

// tellCell adds a fact about a cell.
func (n *Narrator) tellCell(cell core.CellName, from, to, label, format string, args ...any) *Fact {
	f := n.tell(from, to, label, format, args...)
	f.Cell = cell
	return f
}

// tellCellEvent is tellEvent of what is about one cell or request.
func (n *Narrator) tellCellEvent(ev core.Event) {
	switch e := ev.(type) {
	case core.Arrive:
		n.arrive(e)
	case core.Ready:
		from := laneApp
		if to := n.sentTo[e.ID]; to != "" {
			from = string(to)
		}
		n.request(e.ID, "", from, laneSelf, fmt.Sprintf("answer %d", e.ID), "the answer to request %d is there", e.ID)
	case core.Done:
		n.request(e.ID, "", laneSelf, laneSelf, "done", "request %d has ended", e.ID).Minor = true
		delete(n.requests, e.ID)
		delete(n.served, e.ID)
		delete(n.sentTo, e.ID)
	case core.Gone:
		n.request(e.ID, "", laneCallers, laneSelf, "gone", "the caller of request %d went away", e.ID)
	case core.Late:
		n.request(e.ID, "", laneSelf, laneSelf, "too late", "request %d was not let through: authority had ended at the last moment", e.ID).bad()
	case core.ForwardFailed:
		delete(n.served, e.ID)
		delete(n.sentTo, e.ID)
		n.request(e.ID, "", laneSelf, laneSelf, fmt.Sprintf("request %d: %s", e.ID, forwardFailures[e.How]), "the forward of request %d failed: %s", e.ID, forwardText(e)).bad()
	case core.OwnerRead:
		n.ownerRead(e)
	case core.OwnerWritten:
		n.ownerWritten(e)
	case core.Activated:
		if e.OK {
			n.tellCell(e.Cell, laneApp, laneSelf, "activated", "the application is ready for %s", e.Cell)
		} else {
			n.tellCell(e.Cell, laneApp, laneSelf, "activation failed", "the application could not be prepared for %s: %s", e.Cell, e.Detail).bad()
		}
	case core.Deactivated:
		n.tellCell(e.Cell, laneApp, laneSelf, "deactivated", "the application works on %s no more", e.Cell)
	case core.Evict:
		n.tellCell(e.Cell, laneCallers, laneSelf, "evict", "somebody asks for %s to be given up", e.Cell)
	}
}

func (f *Fact) bad() { f.Bad = true }

// request adds a fact about a request; part of a run if it is served without event.
// Nothing is told of one that arrived before the trace begins.
func (n *Narrator) request(id core.RequestID, run, from, to, label, format string, args ...any) *Fact {
	cell, known := n.requests[id]
	if !known {
		return new(Fact)
	}
	f := n.tellCell(cell, from, to, label, format, args...)
	if n.served[id] {
		f.Run, f.RunText = "requests", run
	}
	return f
}

// arrive: a request that is run or forwarded at once is no event.
func (n *Narrator) arrive(e core.Arrive) {
	n.requests[e.ID] = e.Cell
	how, label := "", fmt.Sprintf("request %d", e.ID)
	switch {
	case e.Own && e.Try:
		how = ", to own the cell if nobody else does"
	case e.Own:
		how = ", to own the cell"
	case e.Forwarded:
		how = ", from a peer"
		label += ", from a peer"
	}
	n.served[e.ID] = !e.Own && slices.ContainsFunc(n.step.Effects, func(x core.Effect) bool {
		d, run := x.(core.Dispatch)
		f, forward := x.(core.Forward)
		return run && d.ID == e.ID || forward && f.ID == e.ID
	})
	f := n.request(e.ID, "", laneCallers, laneSelf, label, "request %d for %s arrives%s", e.ID, e.Cell, how)
	f.Counts = true
}

func forwardText(e core.ForwardFailed) string {
	switch e.How {
	case core.NotConnected:
		return "the peer could not be reached, no byte was written"
	case core.ForwardBroken:
		return "it broke after it was begun, so the peer may have run it"
	case core.NotMine:
		return "the peer says that another node owns the cell"
	}
	return fmt.Sprintf("the peer refused it (%s)", e.Refusal.Code)
}

func (n *Narrator) ownerRead(e core.OwnerRead) {
	label, text := "", ""
	switch {
	case e.Outcome == core.Absent:
		label, text = "absent", "absent: nobody has ever owned it"
	case e.Outcome != core.Found:
		n.tellCell(e.Cell, laneBucket, laneSelf, readOutcomes[e.Outcome], "the record of %s could not be read (%s)", e.Cell, readOutcomes[e.Outcome]).bad()
		return
	case e.Owner.Node == "":
		label, text = fmt.Sprintf("released, epoch %d", e.Owner.Epoch), fmt.Sprintf("released at epoch %d", e.Owner.Epoch)
	case e.Owner.Node == n.step.State.Node():
		label, text = fmt.Sprintf("this node, epoch %d", e.Owner.Epoch), fmt.Sprintf("this node at epoch %d", e.Owner.Epoch)
	default:
		label = fmt.Sprintf("%s, epoch %d", shortID(e.Owner.Node), e.Owner.Epoch)
		text = fmt.Sprintf("%s at epoch %d%s", e.Owner.Node, e.Owner.Epoch, n.knownOf(e.Owner.Node))
	}
	f := n.tellCell(e.Cell, laneBucket, laneSelf, label, "the record of %s says: %s (version %s)", e.Cell, text, orNone(e.Version))
	f.Peer, f.Epoch = e.Owner.Node, e.Owner.Epoch
}

// knownOf says what is known of an owner that the record names.
func (n *Narrator) knownOf(node core.NodeID) string {
	if _, dead := n.step.State.Dead(node); !dead {
		return ""
	}
	if at, known := n.died[node]; known {
		return ", which was found dead at " + n.clock(at)
	}
	return ", which is known to be dead"
}

func orNone(v core.Version) string {
	if v == "" {
		return "none"
	}
	return string(v)
}

func shortID(id core.NodeID) string {
	if n := len(id); n > 17 && id[n-17] == '-' {
		return string(id[:n-12]) + "…"
	}
	return string(id)
}

func (n *Narrator) ownerWritten(e core.OwnerWritten) {
	w, known := n.sent[e.Op].(core.WriteOwner)
	delete(n.sent, e.Op)
	if !known {
		return
	}
	what, kind := fmt.Sprintf("the claim of epoch %d", w.Owner.Epoch), Owned
	if w.Owner.Node == "" {
		what, kind = fmt.Sprintf("the release at epoch %d", w.Owner.Epoch), Released
	}
	if e.Outcome != core.Applied {
		n.tellCell(e.Cell, laneBucket, laneSelf, writeOutcomes[e.Outcome], "%s: %s", what, outcomeText(e.Outcome)).bad()
		return
	}
	f := n.tellCell(e.Cell, laneBucket, laneSelf, fmt.Sprintf("epoch %d: applied", w.Owner.Epoch), "%s was applied, as version %s", what, e.Version)
	f.Kind, f.Epoch = kind, w.Owner.Epoch
}

// teller tells effects.
type teller struct{ n *Narrator }

func (t teller) Mint(core.Mint) {}

func (t teller) WriteLease(e core.WriteLease) {
	n := t.n
	n.sent[e.Op] = e
	label := fmt.Sprintf("lease seq %d", e.Lease.Seq)
	if e.Lease.Released {
		label = "tombstone"
	}
	f := n.tell(laneSelf, laneBucket, label, "it sends %s", leaseWrite(e))
	if e.Lease.Seq > 1 && !e.Lease.Released {
		n.renewal(f, false)
	}
}

func (t teller) ReadLease(e core.ReadLease) {
	if e.Own {
		t.n.tell(laneSelf, laneBucket, "read own lease", "it reads its own lease, to see what became of the write").bad()
		return
	}
	t.n.tell(laneSelf, laneBucket, "read lease of "+shortID(e.Node), "it reads the lease of %s", e.Node).Peer = e.Node
}

func (t teller) ListLeases(core.ListLeases) {
	t.n.tell(laneSelf, laneBucket, "list leases", "it lists the leases, to observe every node once")
}

func (t teller) ReadOwner(e core.ReadOwner) {
	t.n.tellCell(e.Cell, laneSelf, laneBucket, "read owner", "it reads the record of %s", e.Cell)
}

func (t teller) WriteOwner(e core.WriteOwner) {
	n := t.n
	n.sent[e.Op] = e
	if e.Owner.Node == "" {
		f := n.tellCell(e.Cell, laneSelf, laneBucket, fmt.Sprintf("release, epoch %d", e.Owner.Epoch),
			"it releases %s: the record keeps epoch %d and names no node, if it still has version %s", e.Cell, e.Owner.Epoch, e.Expect)
		f.Epoch = e.Owner.Epoch
		return
	}
	condition, replacing := "if there is still no record", ""
	if e.Expect != "" {
		condition = fmt.Sprintf("if the record still has version %s", e.Expect)
	}
	if why := e.Evidence; why != nil {
		replacing = fmt.Sprintf(", replacing %s, which is dead (rule %s: %s)", why.Node, why.Rule, n.because(why.Node, *why))
	}
	f := n.tellCell(e.Cell, laneSelf, laneBucket, fmt.Sprintf("claim epoch %d", e.Owner.Epoch),
		"it claims epoch %d of %s, %s%s", e.Owner.Epoch, e.Cell, condition, replacing)
	f.Epoch = e.Owner.Epoch
	if e.Evidence != nil {
		f.Peer = e.Evidence.Node
		f.Label += ", takeover"
	}
}

func (t teller) Activate(e core.Activate) {
	from := ""
	if e.Takeover {
		from = fmt.Sprintf(", taken over from %s", e.Prior)
	}
	t.n.tellCell(e.Cell, laneSelf, laneApp, fmt.Sprintf("activate, epoch %d", e.Epoch), "it prepares %s at epoch %d%s", e.Cell, e.Epoch, from).Epoch = e.Epoch
}

func (t teller) Deactivate(e core.Deactivate) {
	f := t.n.tellCell(e.Cell, laneSelf, laneApp, fmt.Sprintf("deactivate, epoch %d", e.Epoch), "it ends %s at epoch %d (%s)", e.Cell, e.Epoch, e.Reason)
	f.Kind, f.Epoch = Leaving, e.Epoch
}

func (t teller) Probe(e core.Probe) {
	t.n.tell(laneSelf, string(e.Node), "probe", "it probes %s at %s", e.Node, e.Contact.Addr).Peer = e.Node
}

func (t teller) Dispatch(e core.Dispatch) {
	f := t.n.request(e.ID, fmt.Sprintf("requests served here at epoch %d", e.Epoch), laneSelf, laneApp, fmt.Sprintf("run request %d", e.ID),
		"it dispatches request %d to %s at epoch %d, not after %s", e.ID, e.Cell, e.Epoch, t.n.clock(e.NotAfter))
	f.Cell = e.Cell
}

func (t teller) Forward(e core.Forward) {
	f := t.n.request(e.ID, "requests forwarded to "+string(e.Node), laneSelf, string(e.Node), fmt.Sprintf("request %d", e.ID),
		"it forwards request %d to the owner, %s", e.ID, e.Node)
	f.Peer = e.Node
	t.n.sentTo[e.ID] = e.Node
}

func (t teller) Answer(e core.Answer) {
	t.n.request(e.ID, "", laneSelf, laneCallers, fmt.Sprintf("answer %d", e.ID), "it lets the answer to request %d out, not after %s", e.ID, t.n.clock(e.NotAfter))
}

func (t teller) Fail(e core.Fail) {
	delete(t.n.served, e.ID)
	ran, again, detail := "it certainly was not run", "", ""
	if e.Failure.Ran {
		ran = "it may have run"
	}
	if e.Failure.RetryAfter > 0 {
		again = ", to be tried again after " + dur(e.Failure.RetryAfter)
	}
	if e.Failure.Detail != "" {
		detail = ": " + e.Failure.Detail
	}
	t.n.request(e.ID, "", laneSelf, laneCallers, string(e.Failure.Code), "it fails request %d with %s%s; %s%s", e.ID, e.Failure.Code, detail, ran, again).bad()
}

func (t teller) Abort(e core.Abort) {
	delete(t.n.served, e.ID)
	t.n.request(e.ID, "", laneSelf, laneCallers, "abort", "it breaks off request %d, whose answer had begun: %s", e.ID, e.Reason).bad()
}

func (t teller) End(e core.End) {
	f := t.n.tell(laneSelf, laneSelf, "end: "+string(e.Reason), "the session ends: %s", e.Reason)
	f.Kind = Ended
	if e.Reason.Fenced() {
		f.Kind, f.Bad = Fenced, true
		f.Label = "FENCED: " + string(e.Reason)
		f.Text = fmt.Sprintf("it fences: %s. Authority ended at %s; nothing is served any more", e.Reason, t.n.clock(t.n.end))
	}
}
