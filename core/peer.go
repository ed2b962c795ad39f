package core

import (
	"maps"
	"slices"
)

// What this node knows of the others: whether their leases are provably dead
// (the observer's rules), and whether they can be reached, which is about
// liveness only.
//
//	unread → known ⇄ suspect (contact failed: nothing is sent to it)
//	   └───────┴────────┴──→ dead, for good (a rule holds)
//
// One wait per node serves all who wait: the lease is read once, and one probe is
// under way at most. A bad network costs a read per node, not per request (B1).

// Rule names the rule by which a lease was judged dead.
type Rule string

// The observer's rules (docs/protocol.md). No wall clock takes part in any.
//
// Each but the tombstone shows that the holder's last write landed so long ago that
// its authority is over. lease.go has the arithmetic; judge and age say why a
// reading counts for no more than it proves.
const (
	RuleAge       Rule = "age"       // by two stamps of the store
	RuleUnchanged Rule = "unchanged" // seen unchanged for TTL + slack of this node's clock
	RuleAbsent    Rule = "absent"    // seen absent for as long
	RuleReleased  Rule = "released"  // its tombstone
)

// Evidence is why a node was judged dead. It goes into the log with the takeover,
// so that somebody can check the verdict later by hand.
type Evidence struct {
	Node    NodeID
	Rule    Rule
	Version Version
	Stamps  Stamps
	Took    Time // duration of the deciding read
	Watched Time // how long the version was seen unchanged
}

// sighting is one version of a lease record, or its absence, seen unchanged
// since the end of the first read that saw it. A failed reading leaves it as it
// is: to see nothing is not to see a change.
type sighting struct {
	version Version
	absent  bool
	since   Time
	valid   bool
}

// follow is what the last failed contact is still owed: a first read, which
// starts the observation, then reads until it is seen to be dead or alive.
type follow uint8

const (
	followNone follow = iota
	followFirst
	followMore
)

// peer is a node that is not known to be dead. It lives in [peers] until it is
// judged dead, or displaced while nothing waits on it.
type peer struct {
	id    NodeID
	lease Lease // the last good record
	known bool  // there was one
	seen  sighting

	checked Time // the last time it answered, or its lease was read and not dead
	quiet   Time // since when nothing was heard while requests wait on it
	// unanswered counts requests sent to it whose answer has not begun.
	unanswered int
	// ignored: a request to it was given up unanswered, and nothing was heard
	// since. So short deadlines do not hide a silent peer.
	ignored bool
	sent    map[RequestID]*request // whose answer has not ended

	suspect bool // the last contact failed; only an answer of the session clears it
	follow  follow
	aged    Time // how old its lease was, at the least, at the last good reading
	bad     bool // its record was last read as BadRecord
	lost    bool // its record could not be read, the last time

	op      OpID // lease read under way
	opFrom  Time // when it was asked for
	opEnds  Time // when it counts as failed
	readAt  Time // the next scheduled lease read
	probe   OpID // probe under way
	probeBy Time // when it counts as unanswered
	probeAt Time // no probe of a suspect before this

	cells map[CellName]bool // being resolved, waiting for what is learned here
	wake  Time              // of its one timer; "never" while peerDue runs
	used  Time              // when it was last asked for, to find whom to displace
}

type peers struct {
	byID map[NodeID]*peer
	// dead remembers verdicts: dead stays dead. deadOrder bounds it, the oldest
	// verdict goes first. No node is in both maps.
	dead      map[NodeID]Evidence
	deadOrder []NodeID
	unread    []NodeID // leases still to be read once, at the start
	reading   int      // lease reads under way
}

func (ps *peers) init() {
	*ps = peers{byID: map[NodeID]*peer{}, dead: map[NodeID]Evidence{}}
}

// peer finds or makes the entry of a node that is not known to be dead.
func (s *State) peer(id NodeID) *peer {
	if p := s.peers.byID[id]; p != nil {
		p.used = s.now
		return p
	}
	if len(s.peers.byID) >= s.cfg.MaxPeers {
		s.forgetPeer()
	}
	p := &peer{id: id, readAt: never, wake: never, used: s.now, sent: map[RequestID]*request{}, cells: map[CellName]bool{}}
	s.peers.byID[id] = p
	return p
}

// forgetPeer drops the entry that was unused for longest, a suspect only if there
// is no other: its observation, which L2 counts on, would begin again.
func (s *State) forgetPeer() {
	var old *peer
	for _, p := range s.peers.sorted() {
		busy := p.op != 0 || p.probe != 0 || len(p.cells) > 0 || len(p.sent) > 0
		if !busy && (old == nil || p.follow == followNone && old.follow != followNone || p.follow == old.follow && p.used < old.used) {
			old = p
		}
	}
	// If each of them is waited for, the bound gives way; what waits is bounded.
	if old != nil {
		delete(s.peers.byID, old.id)
	}
}

// armPeer sets the peer's one timer to the earliest thing that it waits for.
func (s *State) armPeer(p *peer) {
	at := p.readAt
	if p.op != 0 {
		at = p.opEnds // nothing else is planned before it is known
	}
	if p.probe != 0 {
		at = min(at, p.probeBy)
	} else if p.silent() {
		at = min(at, p.quiet+s.cfg.Renew/2+1)
	}
	if at = max(at, s.now+1); at != p.wake {
		p.wake = at
		s.timers.push(timer{at: at, kind: timerPeer, name: string(p.id)})
	}
}

// silent: something is expected of the peer, and nothing known against it yet.
func (p *peer) silent() bool { return (p.unanswered > 0 || p.ignored) && !p.suspect }

// peerDue: a reading or a probe took too long, a reading is due, or requests
// have waited for long enough that the peer is asked whether it lives.
func (s *State) peerDue(p *peer, o *out) {
	p.wake = never
	if p.op != 0 && s.now >= p.opEnds {
		s.peerRead(LeaseRead{Op: p.op, Node: p.id, Outcome: ReadFailed}, o)
	} else if p.op == 0 && s.now >= p.readAt {
		s.readPeer(p, o)
	}
	switch {
	case s.peers.byID[p.id] != p: // found dead
		return
	case p.probe != 0 && s.now >= p.probeBy:
		s.probed(p, false, o)
	case p.probe == 0 && p.silent() && s.now > p.quiet+s.cfg.Renew/2:
		// Answered by a third of the TTL of silence; later if this node slept.
		if !s.sendProbe(p, max(p.quiet+s.cfg.Renew, s.now+s.cfg.Renew/2), o) {
			s.contactFailed(p, false, o)
		}
	}
	s.armPeer(p)
}

// readPeer reads the lease once for all who want to know. Who asks while a read is
// under way shares it, so what it shows may be older than the question.
func (s *State) readPeer(p *peer, o *out) {
	if p.op != 0 {
		return
	}
	p.op, p.opFrom, p.opEnds, p.readAt = s.op(), s.now, s.now+s.cfg.OpDeadline, never
	s.peers.reading++
	o.add(ReadLease{Op: p.op, Node: p.id, Deadline: p.opEnds})
	s.armPeer(p)
}

// peerRead takes a reading of another node's lease. A reading that failed moves
// nothing: neither towards death nor towards life.
func (s *State) peerRead(ev LeaseRead, o *out) {
	p := s.peers.byID[ev.Node]
	if p == nil || p.op == 0 || ev.Op != p.op {
		return
	}
	p.op = 0
	s.peers.reading--
	p.bad, p.lost = ev.Outcome == BadRecord, ev.Outcome == ReadFailed
	if why, dead := s.judge(p, ev); dead {
		s.bury(p, why, o)
		return
	}
	s.scheduleRead(p)
	s.armPeer(p)
	s.wakeCells(p, o)
}

// judge applies the observer's rules to one reading. Its duration and the
// span of a sighting are taken at their least favourable: the read began when
// it was asked for and ended now.
//
// Unchanged: the record was there at the end of the first read, so it had landed
// by then; it was still there at some instant after the start of the last. What
// lies between is less than the time since its write. It starts from this node's
// own sighting because only that is timed by its own clock.
//
// Absent: a node creates its record once, before it owns anything, and a replace
// of a missing record is rejected. So a record that is gone stays gone, and the
// holder's last write landed before it was first missed. The wait is needed
// because the holder may live, and serves until its authority ends.
//
// Released: the tombstone is sent when nothing is owned or runs any more, and
// nothing is served after it was sent, so there is nothing to wait for.
func (s *State) judge(p *peer, ev LeaseRead) (Evidence, bool) {
	why := Evidence{Node: p.id, Version: ev.Version, Stamps: ev.Stamps, Took: s.now - p.opFrom}
	if ev.Outcome != Found && ev.Outcome != Absent {
		return why, false // nothing was learned
	}
	now := sighting{version: ev.Version, absent: ev.Outcome == Absent, since: s.now, valid: true}
	// Versions never come back (each body has its own seq), so a version seen
	// twice was there all the time.
	if p.seen.valid && p.seen.version == now.version && p.seen.absent == now.absent {
		now.since = p.seen.since
	}
	p.seen = now
	p.checked = s.now
	if ev.Outcome == Found {
		p.lease, p.known = ev.Lease, true
	}
	limit := s.limit(p)
	why.Watched = max(0, p.opFrom-now.since) // negative for a version seen first
	p.aged = 0
	if ev.Outcome == Found {
		p.aged = s.age(ev.Stamps, p.opFrom, limit)
	}
	// The first reading after a failed contact only starts the observation: a
	// write that it shows may be older than the failure.
	if p.follow == followFirst {
		p.follow = followMore
	} else if now.since == s.now && !now.absent { // it was written since: alive
		p.follow = followNone
	}
	switch {
	case ev.Outcome == Found && ev.Lease.Released:
		why.Rule = RuleReleased
	case why.Watched >= limit && now.absent:
		why.Rule = RuleAbsent
	case why.Watched >= limit:
		why.Rule = RuleUnchanged
	case p.aged >= limit:
		why.Rule = RuleAge
	default:
		return why, false
	}
	return why, true
}

// limit is how long a lease must have been unchanged for its holder to be
// dead. No record makes it overflow. The holder counts by its own TTL: to judge a
// longer one by the fleet's would be to judge it alive.
func (s *State) limit(p *peer) Time {
	return max(s.cfg.TTL, min(p.lease.TTL, never/4)) + s.cfg.Slack
}

// age is how long ago, at the least, the store last wrote the record; 0 where
// its stamps prove nothing. Modified was rounded down, which makes the record
// seem older by up to Rounding. The store may have looked at the record when the
// read began and stamped Date when it ended, and a renewal may have landed between:
// so the read's duration is taken off. Allowance covers a step of the store's
// clock too small for the samples to show.
func (s *State) age(st Stamps, from, limit Time) Time {
	if !st.HasDate || !st.HasModified || !s.steady(from, s.clockSample(from, s.now, st.Date), limit) {
		return 0
	}
	return st.Date - st.Modified - s.cfg.Rounding - s.cfg.Allowance - (s.now - from)
}

// provable is when a read can find the lease dead, if nothing changes: by its
// being unchanged, or by the stamps last seen. It is an estimate for planning and
// for RetryAfter; the verdict is judge's alone.
func (s *State) provable(p *peer) Time {
	limit := s.limit(p)
	if !p.seen.valid {
		return s.now + limit
	}
	at := p.seen.since + limit
	if p.aged > 0 {
		at = min(at, p.checked+limit-p.aged)
	}
	return max(at, s.now+s.cfg.RetryStep)
}

// scheduleRead plans the next read of a node that cannot be reached: one that
// can prove its death, for the contact that failed, and further ones only
// while somebody wants to know. The first is what lets a request that comes later
// than TTL + slack after the failed contact take over without a wait (L2).
func (s *State) scheduleRead(p *peer) {
	wanted := len(p.cells) > 0 || p.unanswered > 0
	switch {
	case !wanted && (p.follow == followNone || p.bad):
	case p.lost || p.bad:
		p.readAt = s.now + s.cfg.Renew
	case p.suspect || p.seen.absent || p.follow != followNone:
		p.readAt = s.provable(p)
	}
}

// sorted returns the peers by id: what is done for each must not depend on the
// order of a map.
func (ps *peers) sorted() []*peer {
	all := make([]*peer, 0, len(ps.byID))
	for _, id := range slices.Sorted(maps.Keys(ps.byID)) {
		all = append(all, ps.byID[id])
	}
	return all
}

// bury remembers a node as dead for good, and ends what waits on it. Requests
// that were sent to it may have been run; those that wait for its cells go on to
// take them over. The verdict holds for good because the id never comes back and
// a session whose authority ended never regains it (S5).
func (s *State) bury(p *peer, why Evidence, o *out) {
	ps := &s.peers
	delete(ps.byID, p.id)
	if len(ps.deadOrder) >= s.cfg.MaxPeers { // a verdict forgotten is found again
		delete(ps.dead, ps.deadOrder[0])
		ps.deadOrder = ps.deadOrder[1:]
	}
	ps.dead[p.id] = why
	ps.deadOrder = append(ps.deadOrder, p.id)
	for _, r := range sortedRequests(p.sent) {
		if r.answered {
			o.add(Abort{ID: r.id, Reason: "owner lost"})
			s.forget(r)
		} else {
			s.failNow(r, Failure{Code: CodeOwnerLost, Ran: true, Node: p.id, Detail: "the owner died"}, o)
		}
	}
	s.wakeCells(p, o)
}

// heard: that very session answered something, which keeps all routes to it. It
// says nothing about its lease, so the sighting stays: should that session
// have fenced, what was observed of it still counts.
func (s *State) heard(p *peer, o *out) {
	suspected := p.suspect
	p.checked, p.quiet, p.ignored = s.now, s.now, false
	p.suspect, p.follow, p.readAt = false, followNone, never
	if suspected {
		s.wakeCells(p, o)
	}
	s.armPeer(p)
}

// contactFailed: the owner could not be reached. Its lease is read, which
// starts the observation, and it is probed, unless a probe is what failed; until
// it answers one nothing is sent to it. Further failures learn from the same
// observation.
func (s *State) contactFailed(p *peer, probe bool, o *out) {
	if p.suspect && p.follow != followNone {
		return
	}
	p.suspect, p.follow = true, followFirst
	s.readPeer(p, o)
	if probe && p.probe == 0 {
		s.sendProbe(p, s.now+s.cfg.DialDeadline, o)
	}
	s.armPeer(p)
}

// doubt: a request that had been begun broke. An application that breaks off, or
// a request that is not one, does that too, and must not keep others from a
// healthy owner: it is probed, and only if it does not answer contact has failed.
func (s *State) doubt(p *peer, o *out) {
	if p.suspect || p.probe != 0 {
		return // known, or known soon
	}
	if !s.sendProbe(p, s.now+s.cfg.DialDeadline, o) {
		s.contactFailed(p, false, o)
	}
	s.armPeer(p)
}

// sendProbe reports whether there was an address to send it to.
func (s *State) sendProbe(p *peer, by Time, o *out) bool {
	if !p.known || p.lease.Addr == "" {
		return false
	}
	p.probe, p.probeBy = s.op(), max(s.now+1, by)
	p.probeAt = s.now + s.cfg.Renew
	o.add(Probe{Op: p.probe, Node: p.id, Contact: p.lease.Contact, Deadline: p.probeBy})
	return true
}

// A probe is answered by the very session that it was sent to, or not at all:
// another process at the old address does not count.
func (ev Probed) apply(s *State, o *out) {
	if p := s.peers.byID[ev.Node]; p != nil && p.probe != 0 && p.probe == ev.Op {
		s.probed(p, ev.OK, o)
	}
}

// probed goes on by the answer of a probe. Only the first silence is a failed
// contact; a peer that is already suspected stays so.
func (s *State) probed(p *peer, ok bool, o *out) {
	p.probe = 0
	switch {
	case ok:
		s.heard(p, o)
	case !p.suspect:
		s.contactFailed(p, false, o)
	}
	s.armPeer(p)
	if p.op == 0 {
		s.wakeCells(p, o)
	}
}

// wakeCells lets the cells that waited for this peer go on.
func (s *State) wakeCells(p *peer, o *out) {
	if p.op != 0 {
		return
	}
	names := slices.Sorted(maps.Keys(p.cells))
	clear(p.cells)
	for _, name := range names {
		if c := s.cells.byName[name]; c != nil && c.owner == p.id {
			s.peerLearned(c, o)
		}
	}
}

// The listing only says whom to look at; a node that it misses is read when one
// of its cells is wanted.
func (ev LeasesListed) apply(s *State, o *out) {
	if s.lease.listOp == 0 || ev.Op != s.lease.listOp {
		return
	}
	s.lease.listOp = 0
	for _, id := range ev.Nodes {
		if id != s.lease.node && len(s.peers.unread) < s.cfg.MaxPeers {
			s.peers.unread = append(s.peers.unread, id)
		}
	}
}

// survey reads every lease once at the start, a few at a time: it starts the
// observation of nodes that died before this one came.
func (s *State) survey(o *out) {
	const atOnce = 4
	l := &s.lease
	if l.phase != leaseHeld {
		return
	}
	if !l.listed {
		l.listed, l.listOp = true, s.op()
		o.add(ListLeases{Op: l.listOp, Deadline: s.now + s.cfg.TTL})
	}
	for s.peers.reading < atOnce && len(s.peers.unread) > 0 {
		id := s.peers.unread[0]
		s.peers.unread = s.peers.unread[1:]
		if _, dead := s.peers.dead[id]; !dead {
			s.readPeer(s.peer(id), o)
		}
	}
}
