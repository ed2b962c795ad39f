package trace

import (
	"fmt"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Narrator turns the replayed steps of one trace into facts. What it says of a
// decision is what the core knew: it asks the replayed state.
type Narrator struct {
	source int
	header Header
	facts  []Fact

	step     Step
	requests map[core.RequestID]core.CellName // that have not ended
	served   map[core.RequestID]bool          // of these, those run or forwarded without an event
	sentTo   map[core.RequestID]core.NodeID   // and those forwarded
	sent     map[core.OpID]core.Effect        // writes of the lease, claims and releases that are under way
	seen     map[core.NodeID]sight
	end      core.Time                 // of authority
	died     map[core.NodeID]core.Time // when the verdict came
}

// sight is one version of a peer's lease, by the times of the readings.
type sight struct {
	version core.Version
	absent  bool
	seq     uint64
	since   core.Time
}

// NewNarrator is for the trace with the given index.
func NewNarrator(source int, h Header) *Narrator {
	return &Narrator{
		source: source, header: h,
		requests: map[core.RequestID]core.CellName{}, served: map[core.RequestID]bool{}, sentTo: map[core.RequestID]core.NodeID{},
		sent: map[core.OpID]core.Effect{}, seen: map[core.NodeID]sight{}, died: map[core.NodeID]core.Time{},
	}
}

// Facts are all so far, in order.
func (n *Narrator) Facts() []Fact { return n.facts }

// Wall is an instant of the node's clock by the header's wall clock.
func (n *Narrator) Wall(at core.Time) time.Time {
	return n.header.Wall.Add(time.Duration(at - n.header.Now))
}

// See takes the next step.
func (n *Narrator) See(s Step) {
	n.step = s
	n.tellEvent(s.Event)
	for _, e := range s.Effects {
		e.Do(teller{n})
	}
	n.tellAuthority()
}

// tell adds a fact about the present step; the caller completes it.
func (n *Narrator) tell(from, to, label, format string, args ...any) *Fact {
	n.facts = append(n.facts, Fact{
		Source: n.source, Line: n.step.Line, At: n.step.Now, Wall: n.Wall(n.step.Now),
		From: from, To: to, Label: label, Text: fmt.Sprintf(format, args...),
	})
	return &n.facts[len(n.facts)-1]
}

func (n *Narrator) clock(at core.Time) string { return Clock(n.Wall(at)) }

func (n *Narrator) tellEvent(ev core.Event) {
	switch e := ev.(type) {
	case core.Start:
		n.tell(laneSelf, laneSelf, "start", "the session of %s begins", n.header.Name)
	case core.Minted:
		n.tell(laneSelf, laneSelf, string(e.Node), "it is the node %s", e.Node)
	case core.LeaseWritten:
		n.leaseWritten(e)
	case core.LeaseRead:
		if e.Node == n.step.State.Node() {
			n.leaseReadBack(e)
		} else {
			n.peerRead(e)
		}
	case core.LeasesListed:
		n.tell(laneBucket, laneSelf, fmt.Sprintf("leases: %d", len(e.Nodes)), "the bucket has the leases of %v", e.Nodes)
	case core.Probed:
		if e.OK {
			n.tell(string(e.Node), laneSelf, "lives", "%s answers the probe: it can be reached", e.Node).Peer = e.Node
		} else {
			f := n.tell(string(e.Node), laneSelf, "no answer", "%s does not answer the probe", e.Node)
			f.Peer, f.Bad = e.Node, true
		}
	case core.Drain:
		n.tell(laneCallers, laneSelf, "drain", "it is asked to drain: nothing new is claimed, what it owns is released")
	default:
		n.tellCellEvent(ev)
	}
}

// leaseWritten is about the own lease. A renewal that is applied is no event.
func (n *Narrator) leaseWritten(e core.LeaseWritten) {
	w, known := n.sent[e.Op].(core.WriteLease)
	delete(n.sent, e.Op)
	if !known {
		return // given up long ago
	}
	what := leaseWrite(w)
	if e.Outcome != core.Applied {
		f := n.tell(laneBucket, laneSelf, writeOutcomes[e.Outcome], "%s: %s", what, outcomeText(e.Outcome))
		f.Bad = true
		return
	}
	f := n.tell(laneBucket, laneSelf, "applied", "%s was applied, as version %s", what, e.Version)
	if w.Lease.Seq > 1 && !w.Lease.Released {
		n.renewal(f, false)
	}
}

// renewal marks a fact as part of an uneventful run of renewals.
func (n *Narrator) renewal(f *Fact, counts bool) {
	f.Counts = counts
	f.Run, f.RunText = "renewals", "renewals, each applied; authority lasts until "+n.clock(n.step.State.AuthorityEnds())
}

func leaseWrite(w core.WriteLease) string {
	switch {
	case w.Lease.Released:
		return "the tombstone of its lease"
	case w.Expect == "":
		return fmt.Sprintf("the create of its lease (seq %d)", w.Lease.Seq)
	}
	return fmt.Sprintf("the renewal of its lease (seq %d)", w.Lease.Seq)
}

func outcomeText(o core.WriteOutcome) string {
	switch o {
	case core.Applied:
		return "applied"
	case core.Rejected:
		return "the bucket rejected it, its condition did not hold"
	case core.NotApplied:
		return "it certainly was not applied"
	case core.Contended:
		return "not applied, another write was under way"
	}
	return "nobody knows whether it was applied"
}

func (n *Narrator) leaseReadBack(e core.LeaseRead) {
	switch e.Outcome {
	case core.Found:
		n.tell(laneBucket, laneSelf, fmt.Sprintf("seq %d", e.Lease.Seq), "its lease in the bucket has seq %d and version %s", e.Lease.Seq, e.Version)
	case core.Absent:
		n.tell(laneBucket, laneSelf, "absent", "its lease is gone from the bucket").Bad = true
	default:
		n.tell(laneBucket, laneSelf, readOutcomes[e.Outcome], "its lease could not be read (%s)", readOutcomes[e.Outcome]).Bad = true
	}
}

// peerRead says what a reading of another node's lease shows, and what follows.
func (n *Narrator) peerRead(e core.LeaseRead) {
	what := fmt.Sprintf("the lease of %s was read: ", e.Node)
	label := ""
	bad := false
	switch e.Outcome {
	case core.Found, core.Absent:
		var said string
		said, label = n.sighting(e)
		what += said
	default:
		what, label, bad = fmt.Sprintf("the lease of %s could not be read (%s); that proves nothing", e.Node, readOutcomes[e.Outcome]), "not read", true
	}
	why, dead := n.step.State.Dead(e.Node)
	if _, before := n.died[e.Node]; before || !dead {
		f := n.tell(laneBucket, laneSelf, label, "%s", what)
		f.Peer, f.Bad = e.Node, bad
		return
	}
	n.died[e.Node] = n.step.Now
	n.tell(laneBucket, laneSelf, label, "%s, so it is dead (rule %s: %s)", what, why.Rule, n.because(e.Node, why)).Peer = e.Node
	f := n.tell(string(e.Node), string(e.Node), "dead: "+n.short(why), "")
	f.Kind, f.Peer, f.Bad = Verdict, e.Node, true
	f.Since = n.Wall(n.seen[e.Node].since)
}

// sighting notes the version read, and says how it compares with the one before.
func (n *Narrator) sighting(e core.LeaseRead) (text, label string) {
	old, known := n.seen[e.Node]
	now := sight{e.Version, e.Outcome == core.Absent, e.Lease.Seq, n.step.Now}
	same := known && old.version == now.version && old.absent == now.absent
	if same {
		now.since = old.since
	}
	n.seen[e.Node] = now
	record := fmt.Sprintf("version %s, seq %d", e.Version, e.Lease.Seq)
	switch {
	case e.Lease.Released:
		return record + ", its tombstone", "tombstone"
	case same && now.absent:
		return fmt.Sprintf("absent still, for %s by now", dur(n.step.Now-now.since)), "absent still"
	case now.absent:
		return "absent; that alone proves nothing", "absent"
	case same:
		return fmt.Sprintf("%s, unchanged for %s by now", record, dur(n.step.Now-now.since)), "unchanged"
	case !known:
		return record + ", seen for the first time", fmt.Sprintf("seq %d", e.Lease.Seq)
	}
	return fmt.Sprintf("%s, written since it was seen with seq %d: it lived", record, old.seq), fmt.Sprintf("seq %d", e.Lease.Seq)
}

// because is the evidence of a verdict.
func (n *Narrator) because(node core.NodeID, why core.Evidence) string {
	cfg := n.header.Config
	limit := fmt.Sprintf("ttl + slack = %s", dur(cfg.TTL+cfg.Slack))
	switch why.Rule {
	case core.RuleUnchanged:
		return fmt.Sprintf("by its own clock this node saw version %s unchanged for %s, and %s is enough", why.Version, dur(why.Watched), limit)
	case core.RuleAbsent:
		return fmt.Sprintf("by its own clock this node saw no record for %s, and %s is enough", dur(why.Watched), limit)
	case core.RuleAge:
		return fmt.Sprintf("by two stamps of the store, whose clock has run in step, version %s was written %s before; less %s for what took the reading, rounding and steps of a clock that is at least %s",
			why.Version, dur(why.Stamps.Date-why.Stamps.Modified), dur(why.Took+cfg.Rounding+cfg.Allowance), limit)
	case core.RuleReleased:
		return fmt.Sprintf("version %s says that it has given up for good", why.Version)
	}
	return string(why.Rule)
}

func (n *Narrator) short(why core.Evidence) string {
	switch why.Rule {
	case core.RuleAge:
		return fmt.Sprintf("%s by the store's stamps", dur(why.Stamps.Date-why.Stamps.Modified))
	case core.RuleReleased:
		return "released"
	}
	return fmt.Sprintf("%s for %s", why.Rule, dur(why.Watched))
}

// tellAuthority says when authority begins or lasts longer.
func (n *Narrator) tellAuthority() {
	s := n.step.State
	if !s.Held() || s.AuthorityEnds() == n.end {
		return
	}
	first := n.end == 0
	n.end = s.AuthorityEnds()
	left := dur(n.end - n.step.Now)
	f := n.tell(laneSelf, laneSelf, "authority until "+n.clock(n.end), "authority lasts until %s now, %s from here", n.clock(n.end), left)
	if first {
		f.Text = fmt.Sprintf("it holds its lease, with authority until %s, %s from here", n.clock(n.end), left)
		f.Label = "lease held, authority until " + n.clock(n.end)
	} else {
		n.renewal(f, true)
	}
	f.Kind, f.Until = Authority, n.Wall(n.end)
}
