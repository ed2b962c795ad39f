package core

// The node's own lease: the machine that gives it authority and takes it away.
//
//	unstarted → minting → creating → held → leaving → over
//	                ↖────────┘ (abandoned with its id)
//
// While held it renews every cfg.Renew. Authority ends TTL-Slack after the
// *anchor*: the instant before the last write known to be applied was sent.
//
// Why that is safe. Let e be Slack/TTL, the most by which a clock's rate may be
// off, and t the real instant of the anchor.
//
//   - The holder's clock may be slow: TTL-Slack on it lasts at most
//     (TTL-Slack)/(1-e) = TTL. So authority is over by t+TTL.
//   - The write landed at or after t, because it was sent after t. An observer
//     that saw the record saw it after that, and waits for TTL+Slack by its own
//     clock or the store's. That clock may be fast: the wait lasts at least
//     (TTL+Slack)/(1+e) = TTL. So no verdict on this record comes before t+TTL.
//
// The end of authority and the first verdict meet in one instant and never
// overlap (S3). Counted from the reply instead, authority would outlast the
// verdict by however long the reply took. Counted from the wall clock, it would
// depend on somebody setting that clock.
//
// A renewal that lands after a verdict does no harm: it landed, so it was
// answered, after t+TTL, when this session had fenced already. It is the
// authority it would have extended that decides, not the one it would have
// given (S5).

// leasePhase is where the session stands. Requests are accepted, and authority is
// used, in leaseHeld alone.
type leasePhase uint8

const (
	leaseUnstarted leasePhase = iota // before Start
	leaseMinting                     // an identity was asked for, or is after a pause
	leaseCreating                    // the one create of this identity is not settled
	leaseHeld                        // with authority until lease.end
	leaseLeaving                     // the tombstone was sent: nothing is served any more
	leaseOver                        // fenced or drained; final
)

// leaseStep is what to do at lease.wake when no operation is under way.
type leaseStep uint8

const (
	stepMint leaseStep = iota
	stepWrite
	stepReadBack
)

// maxAttempts bounds the lease writes whose fate is not known (B1). Beyond it
// the record is only read, to see which of them arrives. It is reached only if
// writes go unanswered and the store shows the old record, again and again within
// one TTL.
const maxAttempts = 32

// attempt is one lease write whose fate is not known. By its seq it is recognised
// in the record; its anchor is the authority that it gives if it is found there.
type attempt struct {
	seq    uint64
	anchor Time
}

// lease is the machine's state. At most one lease operation is under way at any
// time (op), so that its answer can be told from every other; wake ends it, or
// starts the next.
type lease struct {
	phase      leasePhase
	node       NodeID // empty before an identity was minted; stays after the end
	generation string
	contact    Contact

	version   Version // of the record last known to be ours
	confirmed uint64  // its seq
	// seq is that of the last write sent. It grows across restarts too, though a
	// new id would allow it to start anew.
	seq uint64
	// attempts that may have replaced it, oldest first. Each expects version,
	// so all are settled as soon as one is known to be applied.
	attempts []attempt
	// end is when authority ends. While creating it is the end of what the create
	// can give, "never" before that.
	end Time

	op       OpID // 0: none is under way
	reading  bool // op is a read-back
	step     leaseStep
	wake     Time // deadline of op, or when to take step
	fresh    bool // the last operation failed: use a new connection
	restarts uint // starts that failed in a row
	listed   bool // the start-up listing was asked for
	listOp   OpID // the listing, until it is answered; nothing waits for it
}

// Start counts once. A session that is over is not started again: its id is gone
// (dead stays dead), and another State begins another session.
func (Start) apply(s *State, o *out) {
	if s.lease.phase == leaseUnstarted {
		s.mint(o)
	}
}

// mint asks for an identity. It has no deadline: without one there is nothing to
// be done, and nothing is owned that could suffer.
func (s *State) mint(o *out) {
	l := &s.lease
	*l = lease{phase: leaseMinting, op: s.op(), wake: never, end: never, seq: l.seq, restarts: l.restarts, fresh: l.fresh}
	o.add(Mint{Op: l.op})
}

// A minted identity is used for one attempt to create its record. Should that
// fail, both are given up: what lands late must not be taken for this session.
// The create is confirmed within the authority that it gives, or not at all.
func (ev Minted) apply(s *State, o *out) {
	l := &s.lease
	if l.phase != leaseMinting || ev.Op != l.op {
		return
	}
	l.phase, l.node, l.generation, l.contact = leaseCreating, ev.Node, ev.Generation, ev.Contact
	l.end = s.now + s.cfg.TTL - s.cfg.Slack
	s.writeLease(false, o)
}

// restart abandons a start together with its id, whose record may still appear
// and then simply expires, and begins another after a growing pause. The id is
// not used again: others may have seen its record land and judged it dead since,
// and a verdict is for good.
func (s *State) restart() {
	l := &s.lease
	pause := min(s.cfg.Renew, s.cfg.RetryStep<<min(l.restarts, 16))
	*l = lease{phase: leaseMinting, end: never, step: stepMint, wake: s.now + pause, seq: l.seq, restarts: l.restarts + 1, fresh: true}
}

// record is the lease that this session writes with a seq: a read-back is
// compared with the whole of it, so that nothing else passes for it. Seq alone
// would not do: what a stranger wrote under this key could bear the same number.
func (s *State) record(seq uint64, released bool) Lease {
	l := &s.lease
	return Lease{Node: l.node, Generation: l.generation, Seq: seq, TTL: s.cfg.TTL, Released: released, Contact: l.contact}
}

// writeLease sends the next lease write. Its anchor is now, before it is sent.
// No other lease operation may be under way. The attempt is kept until its fate
// is known, also if its answer never comes.
func (s *State) writeLease(released bool, o *out) {
	l := &s.lease
	l.seq++
	l.attempts = append(l.attempts, attempt{seq: l.seq, anchor: s.now})
	e := WriteLease{Op: s.leaseOp(false), Lease: s.record(l.seq, released), Expect: l.version, Fresh: l.fresh, Deadline: l.wake}
	if l.phase != leaseCreating { // a create extends no authority
		e.NotAfter = l.end
	}
	o.add(e)
}

// readBack asks the store what became of the writes whose fate is not known, at
// once and on a new connection: the authority that is left runs out meanwhile.
func (s *State) readBack(o *out) {
	s.leaseOp(true)
	l := &s.lease
	l.fresh = true
	o.add(ReadLease{Op: l.op, Node: l.node, Own: true, Fresh: true, Deadline: l.wake})
}

// leaseOp begins a lease operation: it ends after LeaseDeadline or a quarter
// of the authority left, so that one that hangs leaves time for others. With a
// fixed deadline, a store that swallows packets for half a TTL would leave no
// time for the try that succeeds (L4).
func (s *State) leaseOp(reading bool) OpID {
	l := &s.lease
	l.op, l.reading = s.op(), reading
	l.wake = s.now + max(1, min(s.cfg.LeaseDeadline, (l.end-s.now)/4))
	return l.op
}

// leaseRetry schedules the next try: sooner the less authority is left, and on a
// new connection. Never later than the end of authority, which due sees to.
func (s *State) leaseRetry(step leaseStep) {
	l := &s.lease
	l.step, l.fresh = step, true
	l.wake = s.now + max(s.cfg.RetryStep, (l.end-s.now)/8)
}

// due is when leaseDue must be called: for the next step, and in any case at the
// end of authority, so that a fence never waits for an answer.
func (l *lease) due(s *State) Time {
	at := min(l.wake, l.end)
	if l.phase == leaseHeld && s.reqs.grants > 0 {
		at = min(at, l.end-s.cfg.Slack) // grantsDue
	}
	return at
}

// leaseDue ends authority, ends an operation that took too long, or takes the
// next step. Every Step begins with it, so what comes after it in the same Step,
// a late answer above all, finds authority already gone (S5).
//
// In leaseLeaving the end of authority asks for nothing: nothing is served any
// more, and the tombstone's own deadline, which is no later, ends the session.
func (s *State) leaseDue(o *out) {
	l := &s.lease
	switch {
	case s.now >= l.end && l.phase == leaseHeld:
		s.fence(ReasonExpired, o)
		return
	case s.now >= l.end && l.phase == leaseCreating:
		s.restart()
		return
	}
	switch {
	case s.now < l.wake:
	case l.op != 0 && l.reading:
		s.leaseReadBack(LeaseRead{Outcome: ReadFailed}, o)
	case l.op != 0:
		s.leaseWritten(LeaseWritten{Outcome: Ambiguous}, o)
	case l.step == stepMint:
		s.mint(o)
	case l.step == stepReadBack || len(l.attempts) >= maxAttempts: // B1
		s.readBack(o)
	default:
		s.writeLease(false, o)
	}
}

// A completion counts only while its write is the operation under way: one that
// was given up is settled by what is read back, never by its late answer.
func (ev LeaseWritten) apply(s *State, o *out) {
	if s.lease.op != 0 && ev.Op == s.lease.op && !s.lease.reading {
		s.leaseWritten(ev, o)
	}
}

// leaseWritten goes on by the outcome of the last write. Whatever is neither
// certainly applied nor certainly not is left to the record itself: "rejected"
// too may be the echo of an earlier write of this session that landed. To fence
// at once on it would cost a node its life for one lost answer. A create that was
// rejected is different: no earlier write bears its id.
func (s *State) leaseWritten(ev LeaseWritten, o *out) {
	l := &s.lease
	l.op = 0
	last := l.attempts[len(l.attempts)-1]
	switch {
	case l.phase == leaseLeaving:
		// Nothing is owned any more, so nothing depends on the tombstone: if it
		// did not land, peers learn the same when the lease expires.
		s.end(ReasonDrain, o)
	case ev.Outcome == Applied && ev.Version != "":
		s.noteDate(last.anchor, s.now, ev.Stamps)
		s.leaseConfirmed(last, ev.Version)
	case ev.Outcome == NotApplied || ev.Outcome == Contended:
		// Certainly not applied, and never will be.
		l.attempts = l.attempts[:len(l.attempts)-1]
		if l.phase == leaseCreating {
			s.restart()
			return
		}
		s.leaseRetry(stepWrite)
		l.fresh = false // the store answered
	case l.phase == leaseCreating && ev.Outcome == Rejected:
		s.restart()
	default:
		s.readBack(o)
	}
}

// leaseConfirmed takes an own write as applied: authority counts from its
// anchor. leaseDue has ended authority already if it is too late (S5).
//
// The other attempts are forgotten: each expected the version that this one
// replaced, so none of them can land any more. The next renewal is due Renew
// after the anchor, not after the answer, so that slow answers do not add up.
func (s *State) leaseConfirmed(a attempt, v Version) {
	l := &s.lease
	l.phase, l.version, l.confirmed = leaseHeld, v, a.seq
	l.attempts = l.attempts[:0]
	l.end = a.anchor + s.cfg.TTL - s.cfg.Slack
	l.step, l.wake = stepWrite, max(s.now+s.cfg.RetryStep, a.anchor+s.cfg.Renew)
	l.fresh, l.restarts = false, 0
}

// A reading of the own record settles a write; one of any other node's is an
// observation. The core reads its own lease in no other case.
func (ev LeaseRead) apply(s *State, o *out) {
	if ev.Node != s.lease.node {
		s.peerRead(ev, o)
	} else if s.lease.op != 0 && ev.Op == s.lease.op && s.lease.reading {
		s.leaseReadBack(ev, o)
	}
}

// leaseReadBack settles a write that was ambiguous or rejected. Three things can
// be found:
//
//   - one of the attempts: it was applied;
//   - the record before them, unchanged: none was applied yet, though each still
//     may be, so they stay and the renewal is sent again beside them;
//   - anything else, or nothing: somebody has written or deleted the record. Who,
//     and whether by right, cannot be known, so authority has moved: fence.
//
// A reading that failed, or that makes no sense, proves none of these. It is
// tried again until authority ends by itself.
func (s *State) leaseReadBack(ev LeaseRead, o *out) {
	l := &s.lease
	l.op, l.reading = 0, false
	if ev.Outcome == ReadFailed || ev.Outcome == BadRecord {
		s.leaseRetry(stepReadBack)
		return
	}
	// The seq tells which write landed; only its own anchor counts, for the
	// authority must have ended before others may judge that very record. A later
	// attempt that was rejected because of it landed nowhere and gives nothing.
	for _, a := range l.attempts {
		if ev.Outcome == Found && ev.Lease == s.record(a.seq, false) {
			s.leaseConfirmed(a, ev.Version)
			return
		}
	}
	switch {
	case l.phase == leaseCreating:
		s.restart()
	case ev.Outcome == Found && ev.Version == l.version && ev.Lease == s.record(l.confirmed, false):
		// The previous record, unchanged: the write may still land, which its
		// seq would tell.
		s.leaseRetry(stepWrite)
	case ev.Outcome == Absent:
		s.fence(ReasonMissing, o)
	default:
		s.fence(ReasonReplaced, o)
	}
}

// fence ends the session because authority is gone. It writes nothing: whatever
// it wrote could only disturb the next owners. Every request is answered now, not
// when some timeout expires, and says whether it may have been executed. An
// answer that has begun is broken off, for its rest would be let out without
// authority.
func (s *State) fence(why Reason, o *out) {
	for _, r := range s.reqs.sorted() {
		switch {
		case r.state == requestWaiting:
			s.failNow(r, Failure{Code: CodeNodeUnavailable, Detail: string(why)}, o)
		case r.failed: // had its end
		case r.answered || r.granted:
			o.add(Abort{ID: r.id, Reason: why})
		default:
			s.failNow(r, Failure{Code: CodeAuthorityLost, Ran: true, Detail: string(why)}, o)
		}
	}
	s.end(why, o)
}

// end is the last thing that a State does (S7). It forgets everything, so that
// nothing can be served by mistake; a late completion finds nothing to complete.
// Before it the caller has given each request its end, in the effects ahead of
// End, but for what has been answered or failed and only awaits Done.
func (s *State) end(why Reason, o *out) {
	o.add(End{Reason: why})
	node := s.lease.node
	s.lease = lease{phase: leaseOver, node: node, wake: never, end: s.lease.end}
	s.cells.init()
	s.peers.init()
	s.reqs = requests{byID: map[RequestID]*request{}}
	s.timers.heap = nil
}
