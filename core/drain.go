package core

// drain is the orderly end of the session: every cell is released, what runs
// ends, then the lease is replaced by its tombstone. The order is what makes the
// tombstone true: peers take it for death at once, without any wait.
type drain struct {
	on      bool
	closing bool // nothing is owned any more: no request is taken
	cut     Time // when answers that have begun are broken off; never once they were
	ends    Time // when it is given up; never without a drain
}

// A drain that begins before the lease is held has nothing to give back: what
// its start wrote expires. Otherwise what was acquired ends now, and what still
// waits to own a cell is told so; other requests go on. A second Drain does not
// move the deadline.
func (Drain) apply(s *State, o *out) {
	if s.drain.on {
		return
	}
	s.drain = drain{on: true, cut: s.now + s.cfg.DrainDeadline/5*4, ends: s.now + s.cfg.DrainDeadline}
	if s.lease.phase != leaseHeld {
		s.end(ReasonDrain, o)
		return
	}
	s.abortGrants(ReasonDrain, o)
	for _, r := range s.reqs.sorted() {
		if r.own && r.state == requestWaiting {
			s.failNow(r, s.unavailable(), o)
		}
	}
}

// drainDue takes the drain as far as it can go: when nothing is owned and no
// claim is under way, no request is taken; when the last one has ended too, and
// no renewal is under way that could overtake it, the tombstone is sent. A renewal
// that failed leaves no operation, only an attempt; should it land first, the
// tombstone is rejected, and the lease expires instead.
func (s *State) drainDue(o *out) {
	d, cs := &s.drain, &s.cells
	if !d.on || s.lease.phase != leaseHeld {
		return
	}
	if s.now >= d.ends {
		s.drainTimeout(o)
		return
	}
	if s.now >= d.cut {
		s.cutStreams(o)
	}
	d.closing = cs.owned == 0 && cs.leaving == 0 && cs.claims == 0
	if d.closing && cs.slots == 0 && len(s.reqs.byID) == 0 && s.lease.op == 0 {
		s.lease.phase = leaseLeaving
		s.writeLease(true, o)
	}
}

// cutStreams breaks off the answers that have begun: an event stream or a
// WebSocket may never end by itself, and would keep its cell from being released.
// What is left of the drain is for that.
func (s *State) cutStreams(o *out) {
	s.drain.cut = never
	for _, r := range s.reqs.sorted() {
		if r.answered && !r.failed {
			r.failed = true
			o.add(Abort{ID: r.id, Reason: ReasonDrain})
		}
	}
}

// drainTimeout fails what still runs; what is not settled is left to expire
// with the lease. No tombstone is written: the application may still be at work on
// cells that the records give to this node.
func (s *State) drainTimeout(o *out) {
	for _, r := range s.reqs.sorted() {
		switch {
		case r.failed:
		case r.answered:
			o.add(Abort{ID: r.id, Reason: ReasonDrainTimeout})
		default:
			s.failNow(r, Failure{Code: CodeDraining, Ran: r.state != requestWaiting, Detail: "the drain ran out of time"}, o)
		}
	}
	s.end(ReasonDrainTimeout, o)
}
