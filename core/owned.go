package core

// From a claim to its end: claim, activation, service, eviction, release.
//
// Each epoch of a cell on this node goes through these in order and once. The
// record names this node from the claim to the release; the application is
// prepared after the one and told before the other. So whoever owns the cell next
// begins when this node's application has finished, unless this node died or the
// application hung.

// claim tries to acquire a cell that nobody can own any more, against the
// record just read: it is absent, released, this node's own, or names a dead node.
// Nothing is claimed that nobody waits for.
func (s *State) claim(c *cell, o *out) {
	w := c.work
	switch {
	case s.drain.on:
		s.failUnowned(c, o)
		return
	case len(w.waiters) == 0:
		s.giveUp(c)
		return
	case w.reconciles > MaxAcquireReconciles:
		s.failAll(c, Failure{Code: CodeAcquireFailed, RetryAfter: s.cfg.Renew, Detail: "the outcome of the claim could not be found out"}, o)
		return
	case !s.makeRoom(c, o):
		s.failAll(c, Failure{Code: CodeNoCapacity, RetryAfter: s.cfg.Renew, Detail: "this node owns as many cells as it may, and none of them is idle"}, o)
		return
	}
	c.epoch++ // S2: the next one after what the record says, whoever owned it
	w.claim = c.epoch
	s.sendClaim(c, o)
}

// sendClaim sends the claim that takes the cell to c.epoch, on the condition
// that the record is still the one that was read (S1, S2). Of all the nodes that
// read it, one gets its claim applied; the others are rejected and read again. A
// claim at the old version can be under way besides, from before an ambiguous
// answer: it is the same claim, so whichever lands, the record says the same.
func (s *State) sendClaim(c *cell, o *out) {
	s.setPhase(c, cellClaiming)
	w := c.work
	w.op = s.op()
	s.arm(c, s.now+s.cfg.OpDeadline)
	o.add(WriteOwner{
		Op: w.op, Cell: c.name, Owner: Owner{Node: s.lease.node, Epoch: c.epoch}, Expect: c.version,
		NotAfter: s.lease.end, Deadline: w.wake, Evidence: w.takeover,
	})
}

// failUnowned answers what waits for a cell that this node may not claim,
// because it drains. A peer is told "not mine", which makes it resolve anew and
// claim the cell itself; a client is told to come back later.
func (s *State) failUnowned(c *cell, o *out) {
	for _, r := range s.takeWaiters(c) {
		if r.forwarded {
			s.failNow(r, Failure{Code: CodeNotMine, Detail: "this node drains"}, o)
		} else {
			s.failNow(r, Failure{Code: CodeDraining, RetryAfter: s.cfg.Renew, Detail: "this node drains and claims no cell"}, o)
		}
	}
	s.giveUp(c)
}

// makeRoom evicts the least recently used idle cell if this node owns as many
// as it may, and reports whether there is room for one more. Claims under way
// count as cells owned, or many at once would each find the same last place.
func (s *State) makeRoom(c *cell, o *out) bool {
	cs := &s.cells
	others := cs.owned + cs.claims - count(c.phase.claiming())
	if s.cfg.MaxCells == 0 || others < s.cfg.MaxCells {
		return true
	}
	// The one that leaves counts no more: its memory is given back meanwhile.
	if cs.idle.head == nil || cs.leaving >= s.cfg.MaxReleases {
		return false
	}
	s.leave(cs.idle.head, ReasonLimit, o)
	return true
}

// A completion whose number is not current is of a write that was given up; the
// record that is read instead tells what became of it.
func (ev OwnerWritten) apply(s *State, o *out) {
	c := s.cells.byName[ev.Cell]
	if c == nil || c.work == nil || c.work.op == 0 || c.work.op != ev.Op {
		return
	}
	if c.phase == cellReleasing {
		s.released(c, ev, o)
	} else {
		s.claimed(c, ev, o)
	}
}

// claimed goes on by the outcome of a claim. What nobody can know, the record is
// asked for: an ambiguous claim is never taken for applied, nor for failed. Taken
// for applied, two nodes could serve the cell; taken for failed, a record would
// name a node that knows nothing of it.
//
// The first rejection is followed by a reading at once, since a winner is likely to
// be there to route to; further ones in a row only after a pause, or nodes that
// fight over a cell would do so at the speed of the bucket.
func (s *State) claimed(c *cell, ev OwnerWritten, o *out) {
	w := c.work
	w.op = 0
	if w.reconciles == 0 && ev.Outcome != Applied && ev.Outcome != Ambiguous {
		w.claim = 0 // certainly not applied, nor is an earlier one under way
	}
	switch {
	case ev.Outcome == Applied && ev.Version != "":
		s.settledClaim(c, ev.Version, o)
	case ev.Outcome == Contended:
		c.epoch-- // the same claim goes out again
		s.pause(c, true)
	case ev.Outcome == NotApplied:
		s.failAll(c, Failure{Code: CodeStoreUnavailable, RetryAfter: s.cfg.Renew, Detail: "the claim was not applied"}, o)
	case ev.Outcome == Rejected && w.pauses == 0:
		w.pauses++
		s.readOwner(c, o)
	case ev.Outcome == Rejected:
		s.pause(c, false)
	default: // ambiguous: the record tells
		w.reconciles++
		s.readOwner(c, o)
	}
}

// pause waits before the cell is claimed or read again, longer each time, but never
// longer than Renew.
func (s *State) pause(c *cell, claimAgain bool) {
	s.setPhase(c, cellPausing)
	w := c.work
	w.claimAgain = claimAgain
	s.arm(c, s.now+min(s.cfg.Renew, s.cfg.RetryStep<<min(w.pauses, 16)))
	w.pauses++
}

// pauseOver goes on, if somebody still waits or something is to be settled.
func (s *State) pauseOver(c *cell, o *out) {
	w := c.work
	switch {
	case len(w.waiters) == 0 && w.claim == 0:
		s.drop(c)
	case w.claimAgain:
		s.claim(c, o)
	default:
		s.readOwner(c, o)
	}
}

// settledClaim: the cell is this node's at c.epoch; version names its record. The
// version is kept for as long as the cell is owned: it is the condition of the
// release (S6). It is activated even if nobody waits any more, except in a
// drain.
func (s *State) settledClaim(c *cell, v Version, o *out) {
	w := c.work
	if s.drain.on && len(w.waiters) == 0 {
		s.disown(c, v, o)
		return
	}
	c.version, c.owner, w.claim = v, "", 0
	s.setPhase(c, cellActivating)
	w.op = s.op()
	s.arm(c, s.now+s.cfg.ActivateDeadline)
	// What waits goes on waiting: no request meets a cell that is not prepared.
	e := Activate{Op: w.op, Cell: c.name, Epoch: c.epoch, Deadline: w.wake, Prior: w.prior}
	e.Takeover = w.takeover != nil
	o.add(e)
}

// disown releases a cell that this node claimed and never served: the claim
// was settled during the drain. The application was never told of it, so there is
// nothing to deactivate.
func (s *State) disown(c *cell, v Version, o *out) {
	c.version, c.owner = v, ""
	*c.work = work{waiters: c.work.waiters}
	s.sendRelease(c, o)
}

// An activation that was given up at its deadline has been deactivated since;
// its late success changes nothing. The requests that waited for it were told.
func (ev Activated) apply(s *State, o *out) {
	c := s.cells.byName[ev.Cell]
	if c != nil && c.phase == cellActivating && c.work.op == ev.Op {
		s.activated(c, ev, o)
	}
}

// activated lets in what waited for the cell, in order; or gives the cell up
// again, so that another node, or a later try, may have more luck. A failed one is
// deactivated all the same: it may be half done, or, at its deadline, still go on.
func (s *State) activated(c *cell, ev Activated, o *out) {
	c.work.op = 0
	waiters := s.takeWaiters(c)
	if !ev.OK {
		for _, r := range waiters {
			s.failNow(r, Failure{Code: CodeActivationFailed, Node: s.lease.node, Epoch: c.epoch, Detail: ev.Detail}, o)
		}
		s.leave(c, ReasonActivate, o)
		return
	}
	s.setPhase(c, cellOwned)
	s.endJob(c)
	for _, r := range waiters {
		s.dispatch(r, c, o)
	}
	if c.running == 0 {
		s.rest(c)
	}
}

// holding: a busy cell is to leave, so new requests wait for it to fall idle
// instead of keeping it busy for ever; they then acquire it anew, or another
// node does. Once, for a third of a TTL: what runs may be a stream without end.
func (s *State) holding(c *cell) bool {
	leaves := c.phase == cellOwned && (s.drain.on || c.evict != "")
	return leaves && (c.work != nil || c.running > 0 && !c.held)
}

// hold lets a request wait for that.
func (s *State) hold(c *cell, r *request) {
	s.wait(c, r)
	if !c.held {
		c.held = true
		s.arm(c, s.now+s.cfg.Renew)
	}
}

// admitAll lets in what was held back: the cell did not fall idle.
func (s *State) admitAll(c *cell, o *out) {
	waiters := s.takeWaiters(c)
	s.endJob(c)
	for _, r := range waiters {
		s.dispatch(r, c, o)
	}
}

// rest puts an owned cell on which nothing runs among the idle: those to be evicted
// in front, the others behind, which keeps the list in the order of evictDue.
func (s *State) rest(c *cell) {
	c.lastUsed = s.now
	c.unlink()
	if c.evict != "" {
		s.cells.idle.pushFront(c)
	} else {
		s.cells.idle.pushBack(c)
	}
}

// A cell that is asked for goes first among the idle; a busy one is marked, and
// goes when its last request is done.
func (ev Evict) apply(s *State, o *out) {
	c := s.cells.byName[ev.Cell]
	if c == nil || !c.phase.owned() {
		return
	}
	c.evict = ReasonRequested
	if c.in == &s.cells.idle {
		c.unlink()
		s.cells.idle.pushFront(c)
	}
}

// evictDue lets idle cells go that are due, as far as MaxReleases allows. It sees
// idle cells only, so a busy one is never evicted.
func (s *State) evictDue(o *out) {
	cs := &s.cells
	// In order: those asked for, then by last use, so the first that stays ends it.
	for c := cs.idle.head; c != nil && cs.leaving < s.cfg.MaxReleases; c = cs.idle.head {
		switch {
		case s.drain.on:
			s.leave(c, ReasonDrain, o)
		case c.evict != "":
			s.leave(c, c.evict, o)
		case s.cfg.MaxCells > 0 && cs.owned+cs.claims > s.cfg.MaxCells:
			s.leave(c, ReasonLimit, o) // a claim landed after its room was taken
		case s.cfg.IdleAfter > 0 && s.now >= c.lastUsed+s.cfg.IdleAfter:
			s.leave(c, ReasonIdle, o)
		default:
			return
		}
	}
}

// leave stops serving a cell, then releases it: the application first. Nothing runs
// on it. What arrives from here on waits, and acquires the cell anew. A hook that
// hangs holds the release up for DeactivateDeadline at most.
func (s *State) leave(c *cell, why Reason, o *out) {
	s.setPhase(c, cellDeactivating)
	c.evict, c.held = "", false
	w := s.job(c)
	*w = work{op: s.op(), waiters: w.waiters}
	s.arm(c, s.now+s.cfg.DeactivateDeadline)
	o.add(Deactivate{Op: w.op, Cell: c.name, Epoch: c.epoch, Reason: why, Deadline: w.wake})
}

func (ev Deactivated) apply(s *State, o *out) {
	c := s.cells.byName[ev.Cell]
	if c != nil && c.phase == cellDeactivating && c.work.op == ev.Op {
		s.sendRelease(c, o)
	}
}

// sendRelease publishes the cell as unowned, on the condition that the record
// is still the very one that this node's claim made (S6). From here on the
// epoch is never served again, whatever the answer: the release may land at any
// time, and the next owner begins when it does.
func (s *State) sendRelease(c *cell, o *out) {
	s.setPhase(c, cellReleasing)
	w := c.work
	w.op, w.readBack = s.op(), false
	s.arm(c, s.now+s.cfg.OpDeadline)
	o.add(WriteOwner{
		Op: w.op, Cell: c.name, Owner: Owner{Epoch: c.epoch}, Expect: c.version,
		NotAfter: s.lease.end, Deadline: w.wake,
	})
}

// released goes on by the outcome of a release. "Rejected" is an end too: the
// record is no longer the one that this node's claim made.
func (s *State) released(c *cell, ev OwnerWritten, o *out) {
	w := c.work
	w.op = 0
	switch {
	case ev.Outcome == Ambiguous, ev.Outcome == Applied && ev.Version == "":
		s.readRelease(c, o)
	case ev.Outcome == Contended, ev.Outcome == NotApplied:
		s.releaseAgain(c, o)
	default: // applied, or somebody else's already
		s.left(c)
	}
}

// readRelease finds out what became of an ambiguous release.
func (s *State) readRelease(c *cell, o *out) {
	w := c.work
	w.op, w.readBack = s.op(), true
	s.arm(c, s.now+s.cfg.OpDeadline)
	o.add(ReadOwner{Op: w.op, Cell: c.name, Deadline: w.wake})
}

// releaseRead: the record still being this node's own, the release is sent
// again; any other content means that it was applied, or is no longer needed.
func (s *State) releaseRead(c *cell, ev OwnerRead, o *out) {
	c.work.op = 0
	switch {
	case ev.Outcome == Found && ev.Version == c.version, ev.Outcome == ReadFailed:
		s.releaseAgain(c, o)
	default: // it was applied, or the record is somebody else's
		s.left(c)
	}
}

// releaseAgain sends the release again after a pause, for as long as authority
// lasts: a record that names a live node would keep everybody away who wants to
// own the cell. After a few times requests that wait need not: their claim of
// the next epoch replaces the record as well.
func (s *State) releaseAgain(c *cell, o *out) {
	w := c.work
	if w.reconciles++; w.reconciles > MaxAcquireReconciles && len(w.waiters) > 0 {
		s.left(c)
		return
	}
	w.op, w.readBack = 0, false
	s.arm(c, s.now+min(s.cfg.Renew, s.cfg.RetryStep<<min(w.pauses, 16)))
	w.pauses++
}

// releaseDue: an operation of the release took too long, or a pause is over. What
// took too long is ambiguous if it was the write, and has failed if it was the read.
func (s *State) releaseDue(c *cell, o *out) {
	w := c.work
	switch {
	case w.op == 0:
		s.sendRelease(c, o)
	case w.readBack:
		s.releaseRead(c, OwnerRead{Outcome: ReadFailed}, o)
	default:
		s.released(c, OwnerWritten{Outcome: Ambiguous}, o)
	}
}

// left: the cell is no longer this node's, or is about to be claimed again at the
// next epoch. What came meanwhile acquires anew; the first step is a reading (L3).
func (s *State) left(c *cell) {
	if len(c.work.waiters) == 0 {
		s.drop(c)
		return
	}
	c.version = "" // what was read or written before settles nothing any more
	s.resolve(c)
}
