package core

// Cells that another node owns: whether it lives, whether it can be reached,
// and the routes to it. Routes are about liveness only: the owner decides. One that
// is wrong costs a detour, never a second owner, so it may be old.

// consult goes on by what is known of the owner; it may wait for a reading, or for
// the probe of a suspect. Both have deadlines in peer.go, and wakeCells ends the
// wait. A takeover is claimed against the very version whose owner is dead.
func (s *State) consult(c *cell, o *out) {
	s.setPhase(c, cellConsulting)
	c.work.op = 0
	ev, dead := s.peers.dead[c.owner]
	if dead && c.version == "" { // a route: its record was read long ago
		s.readOwner(c, o)
		return
	}
	if dead {
		c.work.prior, c.work.takeover = c.owner, &ev
		s.claim(c, o)
		return
	}
	p := s.peer(c.owner)
	if s.stale(p) {
		if p.follow == followNone && p.seen.valid {
			p.follow = followFirst // silent for a TTL: a failed contact
		}
		s.readPeer(p, o)
	}
	// A suspect may be back: it is asked, though not by every request anew.
	if p.suspect && p.probe == 0 && s.now >= p.probeAt {
		s.sendProbe(p, s.now+s.cfg.DialDeadline, o)
		s.armPeer(p)
	}
	if p.op != 0 || p.suspect && p.probe != 0 {
		s.arm(c, never)
		p.cells[c.name] = true
		return
	}
	s.located(c, p, o)
}

// stale: nothing was heard of the peer for a TTL, or nothing good ever.
func (s *State) stale(p *peer) bool {
	return p.lost || p.bad || !p.seen.valid || s.now-p.checked > s.cfg.TTL
}

// peerLearned: something that the cell waited for was learned of its owner. It was
// taken from the peer's set before; if it has to wait on, it is put there again.
func (s *State) peerLearned(c *cell, o *out) {
	if s.peers.dead[c.owner].Node != "" {
		if c.phase == cellConsulting {
			s.consult(c, o)
		} else if c.phase == cellStuck || c.phase == cellRemote && c.work != nil {
			s.resolve(c)
		}
		return
	}
	p := s.peer(c.owner)
	switch {
	case c.phase == cellStuck && !s.unreachable(p):
		s.resolve(c)
	case c.phase == cellConsulting && (!p.suspect || p.probe == 0):
		s.located(c, p, o)
	case c.phase == cellConsulting || c.phase == cellStuck:
		p.cells[c.name] = true
		s.watch(p)
	case c.phase == cellRemote && c.work != nil:
		p.cells[c.name] = true
	}
}

// located: another node owns the cell, and is not provably dead. Whatever is
// wrong with it, it is never a reason to take the cell: only death is.
func (s *State) located(c *cell, p *peer, o *out) {
	switch {
	case p.bad:
		s.failAll(c, Failure{Code: CodeBadRecord, Node: c.owner, Epoch: c.epoch, Detail: "the owner's lease is not a lease record"}, o)
	case p.lost:
		s.failAll(c, Failure{Code: CodeStoreUnavailable, Node: c.owner, Epoch: c.epoch, RetryAfter: s.cfg.Renew, Detail: "the owner's lease could not be read"}, o)
	case s.unreachable(p):
		s.stuck(c, p, o)
	default:
		s.routeAll(c, p, o)
	}
}

// unreachable: nothing can be sent to it now. That says nothing about its life:
// it may serve others, and does until its lease is provably dead.
func (s *State) unreachable(p *peer) bool {
	return p.suspect || p.seen.absent || p.lease.Addr == ""
}

// stuck lets requests wait for the owner's death or return, as long as each of
// them may, and fails the others.
func (s *State) stuck(c *cell, p *peer, o *out) {
	// To wait helps only if the death can be proven before patience ends.
	for _, r := range s.waitersOf(c) {
		if s.now >= r.patience || s.provable(p) > r.patience {
			s.failNow(r, s.unreachableNow(p, c), o)
		}
	}
	s.watch(p)
	if len(c.work.waiters) == 0 {
		s.remote(c)
		return
	}
	// Somebody else may take the cell over, or the owner give it back, so its
	// record is read again now and then.
	s.setPhase(c, cellStuck)
	s.arm(c, s.now+s.cfg.Renew)
	for _, r := range s.waitersOf(c) {
		s.armRequest(r, min(r.deadline, r.patience))
	}
	p.cells[c.name] = true
}

// watch sees to it that a read is planned that can prove the peer dead.
func (s *State) watch(p *peer) {
	if p.op == 0 && p.readAt == never && s.unreachable(p) && p.seen.valid {
		p.readAt = s.provable(p)
		s.armPeer(p)
	}
}

// unreachableNow refuses with the time at which the owner's death can first be
// proven; a client that comes back then is served, or told again.
func (s *State) unreachableNow(p *peer, c *cell) Failure {
	return Failure{Code: CodeOwnerUnreachable, Node: p.id, Epoch: c.epoch, RetryAfter: s.provable(p) - s.now,
		Detail: "the owner cannot be reached and is not provably dead yet"}
}

// remote keeps the cell as a route, within the bound. The version is dropped: by the
// time the route fails it is old, and a claim must be against a fresh one.
func (s *State) remote(c *cell) {
	s.setPhase(c, cellRemote)
	c.version = ""
	if c.work != nil && len(c.work.waiters) == 0 {
		s.endJob(c)
	}
	routes := &s.cells.routes
	for n := routes.len; n > 0 && routes.len > s.cfg.MaxRoutes; n-- {
		old := routes.head
		if old.work == nil {
			s.drop(old)
			continue
		}
		old.unlink() // wanted: as recent as any
		routes.pushBack(old)
	}
}

// routeAll sends what waits to the owner; what wants to own the cell stays, and has
// the record read again every Renew, or at once when the owner is found dead. A request that came from a peer is refused
// rather than sent on: with two hops, stale routes could send it in circles.
func (s *State) routeAll(c *cell, p *peer, o *out) {
	w := c.work
	for _, r := range s.takeWaiters(c) {
		switch {
		case r.own && (r.try || s.drain.on):
			s.failNow(r, Failure{Code: CodeOwned, Node: c.owner, Epoch: c.epoch, Detail: "another node owns the cell"}, o)
		case r.own:
			w.waiters = append(w.waiters, r.id)
		case r.forwarded:
			s.failNow(r, Failure{Code: CodeNotMine, Node: c.owner, Epoch: c.epoch, Detail: "another node owns the cell"}, o)
		case p.lease.Protocol != s.cfg.Protocol:
			s.failNow(r, Failure{Code: CodePeerIncompatible, Node: c.owner, Epoch: c.epoch, Detail: "the owner speaks another peer protocol"}, o)
		default:
			s.forward(r, c, p, o)
		}
	}
	w.op = 0
	s.remote(c)
	if c.work != nil {
		s.arm(c, s.now+s.cfg.Renew)
		p.cells[c.name] = true
	}
}

// route sends one request to the owner of a remote cell, or resolves the cell
// anew where the route cannot be relied on. An owner to which nothing can be sent
// has no way to say that it gave the cell up: only the record can (L3).
func (s *State) route(c *cell, r *request, o *out) {
	p := s.peers.byID[c.owner]
	switch {
	case s.routable(c, r):
		c.unlink()
		s.cells.routes.pushBack(c)
		s.forward(r, c, p, o)
	case r.own || r.forwarded || p == nil || !s.vacant() || s.unreachable(p) || p.lease.Protocol != s.cfg.Protocol:
		s.wait(c, r)
		s.resolve(c)
	default:
		s.wait(c, r)
		s.consult(c, o)
	}
}

// routable: the request can be sent along the route at once.
func (s *State) routable(c *cell, r *request) bool {
	p := s.peers.byID[c.owner] // never one that is known to be dead
	return c.phase == cellRemote && !r.own && !r.forwarded && p != nil && p.known && p.op == 0 &&
		p.lease.Protocol == s.cfg.Protocol && s.now-p.checked <= s.cfg.TTL && !s.unreachable(p)
}
