package core

import (
	"maps"
	"slices"
)

// Requests: each gets exactly one answer, within its deadline (L1).
//
//	Arrive → waiting ──→ running → answered → Done
//	           │  ↑ ↓       └────→ failed ──→ Done
//	           │  └ sent ──→ answered ──────→ Done
//	           ↓    ↓
//	          failed, and forgotten at once
//
// In waiting, everything is still open: nobody has run the request, so it may be
// sent anywhere or refused. Running and sent, it may have been run, and nothing
// sends it a second time but a forward that certainly was not: once after "never
// connected", once after "not mine", so that nodes which each point to another one
// cannot pass it round for ever. Answered, part of the answer is out: it ends with
// Done, or is broken off by Abort, and no error can be told any more.
//
// Until its answer begins each request has a timer, its own deadline at the latest.
// That is what ends a wait for anything else that never comes. A request to own a
// cell has none once it was granted: it lasts until Done, or until the cell is taken
// away.

type requestState uint8

const (
	requestWaiting requestState = iota // for the cell's owner to be settled
	requestRunning                     // dispatched here
	requestSent                        // forwarded to the owner
)

// request is one request from its Arrive to its end. Its caller sends Done in any
// case; for one that was forgotten already that does nothing.
type request struct {
	id        RequestID
	cell      CellName
	deadline  Time // for its answer to begin
	patience  Time // how long it waits for an unreachable owner
	wake      Time // of its one timer
	state     requestState
	own, try  bool
	forwarded bool   // by a peer: run here or refused
	answered  bool   // its answer was let out
	granted   bool   // own, dispatched, not aborted
	failed    bool   // failed, or broken off, while it ran: Done is awaited
	reconnect bool   // it was tried again after a connection that never was
	refused   bool   // a node has said "not mine"
	node      NodeID // to which it was sent last; stays while it waits again
}

type requests struct {
	byID    map[RequestID]*request
	waiting int // in state waiting, bounded by MaxQueue at the door
	grants  int // granted
}

// sortedRequests is for effects that come from several requests at once: their
// order must not depend on the order of a map.
func sortedRequests(m map[RequestID]*request) []*request {
	all := make([]*request, 0, len(m))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[id])
	}
	return all
}

func (rs *requests) sorted() []*request { return sortedRequests(rs.byID) }

// armRequest sets when requestDue is called for a request; "never" calls it off.
func (s *State) armRequest(r *request, at Time) {
	if at != r.wake {
		r.wake = at
		s.timers.push(timer{at: at, kind: timerRequest, id: r.id})
	}
}

// waitersOf returns the requests that wait for a cell, in order.
func (s *State) waitersOf(c *cell) []*request {
	if c.work == nil {
		return nil
	}
	rs := make([]*request, 0, len(c.work.waiters))
	for _, id := range c.work.waiters {
		rs = append(rs, s.reqs.byID[id])
	}
	return rs
}

// takeWaiters returns them and leaves none behind. The caller gives each another
// place, or an end: until then the state does not hold together.
func (s *State) takeWaiters(c *cell) []*request {
	rs := s.waitersOf(c)
	c.work.waiters = nil
	return rs
}

// A request is refused at the door if it could only wait in vain; otherwise it
// is entered, and from here on has exactly one end (L1). A full queue refuses only
// what would join it: a warm cell is served, and a live route used, whatever else
// waits.
func (ev Arrive) apply(s *State, o *out) {
	r := &request{
		id: ev.ID, cell: ev.Cell, deadline: ev.Deadline, wake: never,
		own: ev.Own, try: ev.Try, forwarded: ev.Forwarded,
		// Within slack of the moment when the owner's death can be proven a
		// refusal would only be early.
		patience: min(ev.Deadline, s.now+max(s.cfg.FailoverWait, s.cfg.Slack)),
	}
	if r.own && !r.try {
		r.patience = r.deadline
	}
	c := s.cells.byName[r.cell]
	switch {
	case s.lease.phase != leaseHeld || s.drain.closing || r.own && s.drain.on:
		o.add(Fail{ID: r.id, Failure: s.unavailable()})
	case r.deadline <= s.now:
		o.add(Fail{ID: r.id, Failure: Failure{Code: CodeTimeout, Detail: "the request came after its deadline"}})
	case s.reqs.waiting >= s.cfg.MaxQueue && (c == nil || c.phase != cellOwned && !s.routable(c, r) || s.holding(c)):
		o.add(Fail{ID: r.id, Failure: Failure{Code: CodeNoCapacity, RetryAfter: s.cfg.RetryStep, Detail: "too many requests wait for an owner"}})
	default:
		s.reqs.byID[r.id] = r
		s.reqs.waiting++
		s.place(r, c, o)
	}
}

// unavailable is why no request is taken at all.
func (s *State) unavailable() Failure {
	if s.drain.on {
		return Failure{Code: CodeDraining, RetryAfter: s.cfg.Renew, Detail: "this node drains"}
	}
	return Failure{Code: CodeNodeUnavailable, RetryAfter: s.cfg.Renew, Detail: "this node does not hold its lease yet"}
}

// place puts a waiting request where its cell stands. It decides nothing about the
// cell, but that somebody wants it.
func (s *State) place(r *request, c *cell, o *out) {
	switch {
	case c == nil:
		c = s.newCell(r.cell)
		s.resolve(c)
		s.wait(c, r)
	case c.phase == cellRemote:
		s.route(c, r, o)
	case s.holding(c):
		s.hold(c, r)
	case c.phase == cellOwned:
		s.dispatch(r, c, o)
	case c.phase == cellStuck && s.provable(s.peers.byID[c.owner]) > r.patience:
		s.failNow(r, s.unreachableNow(s.peers.byID[c.owner], c), o)
	default:
		s.wait(c, r)
	}
}

// wait lets a request join what is under way for its cell.
func (s *State) wait(c *cell, r *request) {
	w := s.job(c)
	w.waiters = append(w.waiters, r.id)
	at := r.deadline
	if c.phase == cellStuck {
		at = min(at, r.patience)
	}
	s.armRequest(r, at)
}

// leaveWait takes a request out of the waiting, in whatever cell it waits. Where
// it was the last, the cell ends its wait too; one with an operation under way
// goes on until that is completed, for a claim may have been sent.
func (s *State) leaveWait(r *request) {
	s.reqs.waiting--
	c := s.cells.byName[r.cell]
	if c == nil || c.work == nil {
		return
	}
	w := c.work
	if i := slices.Index(w.waiters, r.id); i >= 0 {
		w.waiters = slices.Delete(w.waiters, i, i+1)
	}
	switch {
	case len(w.waiters) > 0:
	case c.phase == cellQueued:
		s.drop(c)
	case c.phase == cellStuck || c.phase == cellRemote:
		s.remote(c)
	case c.phase == cellOwned:
		s.endJob(c)
	}
}

// dispatch runs a request on a cell that is owned here. NotAfter is the end of the
// authority as it is now: should the effect be carried out late, the executor finds
// so, and no request begins without authority (S3).
func (s *State) dispatch(r *request, c *cell, o *out) {
	s.reqs.waiting--
	r.state = requestRunning
	c.running++
	c.unlink()
	at := r.deadline
	if r.own {
		r.granted, at = true, never
		s.reqs.grants++
	}
	s.armRequest(r, at)
	o.add(Dispatch{ID: r.id, Cell: c.name, Epoch: c.epoch, NotAfter: s.lease.end})
}

// forward sends a waiting request to the owner. It needs no NotAfter: the owner
// runs it under its own authority, and whether this node is alive is nothing to it.
func (s *State) forward(r *request, c *cell, p *peer, o *out) {
	s.reqs.waiting--
	r.state, r.node = requestSent, p.id
	if p.unanswered == 0 && !p.ignored {
		p.quiet = s.now // silence counts from when somebody listens
	}
	p.sent[r.id] = r
	p.unanswered++
	s.armPeer(p)
	s.armRequest(r, r.deadline)
	o.add(Forward{ID: r.id, Cell: c.name, Node: p.id, Contact: p.lease.Contact})
}

// ignore notes that an unanswered request is given up. Without it, a silent owner
// of cells whose clients never wait as long as TTL/3 would never be found out: the
// silence would seem to end with each request.
func (s *State) ignore(r *request) {
	if p := s.peers.byID[r.node]; p != nil && r.state == requestSent && !r.answered {
		p.ignored = true
	}
}

// unsend takes a request from the peer that it was sent to. An answered one was
// counted off when its answer began.
func (s *State) unsend(r *request) {
	p := s.peers.byID[r.node]
	if p == nil || p.sent[r.id] != r {
		return
	}
	delete(p.sent, r.id)
	if !r.answered {
		p.unanswered--
		s.armPeer(p)
	}
}

// The answer is let out under the authority that this step has just checked; a
// forwarded one also proves that its owner's session lives. Its deadline ends here:
// a stream may last as long as it likes. A request to own a cell has no answer.
func (ev Ready) apply(s *State, o *out) {
	r := s.reqs.byID[ev.ID]
	if r == nil || r.state == requestWaiting || r.answered || r.failed || r.own {
		return
	}
	if p := s.peers.byID[r.node]; r.state == requestSent && p != nil {
		p.unanswered--
		s.heard(p, o)
	}
	r.answered = true
	s.armRequest(r, never)
	o.add(Answer{ID: r.id, NotAfter: s.lease.end})
}

// The effect was not carried out: its authority ended, or was renewed under way.
// If it had ended this step has fenced, so the effect is given again, with the
// end of the new authority (S3: the epoch is still the cell's, since a cell on which
// a request runs does not leave).
func (ev Late) apply(s *State, o *out) {
	r := s.reqs.byID[ev.ID]
	switch {
	case r == nil || r.failed || r.state == requestWaiting:
	case r.answered:
		o.add(Answer{ID: r.id, NotAfter: s.lease.end})
	case r.state == requestRunning:
		o.add(Dispatch{ID: r.id, Cell: r.cell, Epoch: s.cells.byName[r.cell].epoch, NotAfter: s.lease.end})
	}
}

// What was dispatched keeps its cell busy until here, also after it failed: the
// application may still work on it, so the cell must not be released before.
func (ev Done) apply(s *State, o *out) {
	r := s.reqs.byID[ev.ID]
	if r == nil {
		return
	}
	switch r.state {
	case requestWaiting:
		s.leaveWait(r)
	case requestSent:
		s.ignore(r)
		s.unsend(r)
	case requestRunning:
		c := s.cells.byName[r.cell]
		if c.running--; c.running == 0 {
			s.rest(c)
		}
	}
	s.forget(r)
}

// A caller that leaves takes its place in the queue with it. What it asked for
// goes on as far as that is cheaper than to undo it.
func (ev Gone) apply(s *State, o *out) {
	if r := s.reqs.byID[ev.ID]; r != nil && r.state == requestWaiting {
		s.leaveWait(r)
		s.forget(r)
	}
}

// forget removes a request that has had its end.
func (s *State) forget(r *request) {
	if r.granted {
		s.reqs.grants--
	}
	delete(s.reqs.byID, r.id)
}

// failNow answers a request with an error. It must not have been answered. One that
// runs here keeps its cell busy until it is done, however long that takes: to
// release the cell under it would let two nodes work on it.
func (s *State) failNow(r *request, f Failure, o *out) {
	o.add(Fail{ID: r.id, Failure: f})
	switch r.state {
	case requestRunning:
		r.failed = true // and awaits Done
		s.armRequest(r, never)
		return
	case requestSent:
		s.unsend(r)
	default:
		s.leaveWait(r)
	}
	s.forget(r)
}

// requestDue: its time, or its patience, is over. Patience counts only while the
// cell is stuck; in any other phase it is only a reason to look again.
func (s *State) requestDue(r *request, o *out) {
	r.wake = never
	// The two times may be one: patience is judged first, for its error says more.
	c := s.cells.byName[r.cell]
	stuck := r.state == requestWaiting && c != nil && c.phase == cellStuck
	switch {
	case stuck && s.now >= r.patience && s.peers.byID[c.owner] != nil:
		s.failNow(r, s.unreachableNow(s.peers.byID[c.owner], c), o)
	case s.now < r.deadline:
		s.armRequest(r, r.deadline)
	case r.state == requestWaiting:
		f := Failure{Code: CodeTimeout, Detail: "no owner was found in time"}
		if c != nil {
			f.Detail = "the request ran out of time while its cell was " + c.phase.String()
		}
		s.failNow(r, f, o)
	default:
		s.ignore(r)
		s.failNow(r, Failure{Code: CodeTimeout, Ran: true, Node: r.node, Detail: "the answer did not begin in time"}, o)
	}
}

// A forward that brought no answer is tried again only where the request
// certainly was not run, once for each reason: after a connection that never
// was, and after a "not mine". Each tells something about the peer first.
func (ev ForwardFailed) apply(s *State, o *out) {
	r := s.reqs.byID[ev.ID]
	if r == nil || r.state != requestSent || r.answered {
		return
	}
	// Any answer keeps the routes to that session; none starts the observation.
	p := s.peers.byID[r.node]
	switch ev.How {
	case NotConnected:
		s.contactFailed(p, true, o)
	case ForwardBroken:
		s.doubt(p, o)
	default:
		s.heard(p, o)
	}
	switch {
	case ev.How == NotConnected && !r.reconnect:
		r.reconnect = true
		s.again(r, o)
	case ev.How == NotMine && !r.refused:
		r.refused = true
		s.again(r, o)
	case ev.How == NotConnected:
		s.failNow(r, Failure{Code: CodeOwnerUnreachable, Node: r.node, RetryAfter: s.provable(p) - s.now, Detail: "the owner could not be connected to, twice"}, o)
	case ev.How == NotMine:
		s.failNow(r, Failure{Code: CodeOwnerUnsettled, Detail: "two nodes in a row said that another one owns the cell"}, o)
	case ev.How == PeerRefused:
		s.failNow(r, ev.Refusal, o)
	default:
		s.failNow(r, Failure{Code: CodeOwnerLost, Ran: true, Node: r.node, Detail: "the connection to the owner broke after the request was begun"}, o)
	}
}

// again resolves the cell anew for a request that the route did not serve;
// exactly that route is dropped. Other cells of the same node keep theirs: one
// "not mine" says nothing of them. If the cell has moved on meanwhile, the request
// joins it where it stands.
func (s *State) again(r *request, o *out) {
	s.unsend(r)
	r.state = requestWaiting
	s.reqs.waiting++
	c := s.cells.byName[r.cell]
	if c != nil && c.phase == cellRemote && c.owner == r.node {
		s.wait(c, r)
		s.resolve(c)
		return
	}
	s.place(r, c, o)
}

// grantsDue takes owned cells away early enough for their owners to stop while
// the authority still lasts. What they do is not under the core's control: there is
// no effect whose NotAfter could hold it back, so they are told slack ahead. A
// renewal that lands after that does not give the cells back.
func (s *State) grantsDue(o *out) {
	if s.reqs.grants > 0 && s.now >= s.lease.end-s.cfg.Slack {
		s.abortGrants(ReasonExpired, o)
	}
}

// abortGrants takes the owned cells away from those who acquired them. Each cell
// stays busy until its owner is Done.
func (s *State) abortGrants(why Reason, o *out) {
	for _, r := range s.reqs.sorted() {
		if r.granted {
			r.granted, r.failed = false, true
			s.reqs.grants--
			o.add(Abort{ID: r.id, Reason: why})
		}
	}
}
