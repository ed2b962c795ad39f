package core

// Cells: who owns them, as far as this node knows, and how it finds out. This
// file holds the table and the way from "unknown" to a claim; owned.go has what
// follows a claim.

type cellPhase uint8

const (
	cellQueued       cellPhase = iota // waits for a place among MaxActivations
	cellReading                       // the ownership record is being read
	cellConsulting                    // what is known of the owner is being read
	cellClaiming                      // a claim was sent
	cellPausing                       // before the same claim, or a read, is sent again
	cellActivating                    // claimed; the application prepares it
	cellOwned                         // served here
	cellDeactivating                  // the application lets it go
	cellReleasing                     // a release was sent, or is being read back
	cellRemote                        // another node owns it: a route
	cellStuck                         // its owner is unreachable and not provably dead; requests wait
)

var phaseNames = [...]string{"queued", "reading", "consulting", "claiming", "pausing", "activating",
	"owned", "deactivating", "releasing", "remote", "stuck"}

func (p cellPhase) String() string { return phaseNames[p] }

func (p cellPhase) claiming() bool { return p == cellClaiming || p == cellPausing }
func (p cellPhase) owned() bool    { return p == cellActivating || p == cellOwned }
func (p cellPhase) leaving() bool  { return p == cellDeactivating || p == cellReleasing }

// resolving: the cell holds one of the MaxActivations places.
func (p cellPhase) resolving() bool { return p >= cellReading && p <= cellActivating }

type cell struct {
	name     CellName
	phase    cellPhase
	evict    Reason // asked for: leave when nothing runs any more
	running  int32  // requests dispatched and not done
	epoch    Epoch  // of our claim, or of the owner's as last read
	version  Version
	owner    NodeID // the other node that owns it, or did
	lastUsed Time
	work     *work // only while something is under way or waits

	prev, next *cell
	in         *cellList
}

// work is what a cell needs only while it changes hands or requests wait.
type work struct {
	op   OpID
	wake Time // deadline of op, or when to go on
	// waiters are requests that wait for the outcome, first come first served.
	waiters []RequestID

	claim      Epoch // of a claim that was sent and is not settled; 0: none
	claimAgain bool  // after the pause, send the same claim rather than read
	reconciles int   // read-backs after ambiguous claims or releases
	pauses     uint  // in a row
	prior      NodeID
	takeover   *Evidence
	readBack   bool   // op reads a release back
	reason     Reason // why it leaves
	detail     string
}

type cells struct {
	byName map[CellName]*cell
	queue  cellList // queued, first come first
	idle   cellList // owned, nothing runs; least recently used first
	routes cellList // remote; least recently used first
	slots  int      // cells in a resolving phase
	claims int      // cells claiming, or about to claim again
	owned  int      // cells activating or served
	// leaving counts cells deactivating or releasing.
	leaving int
	working int // cells with work
}

func (cs *cells) init() { *cs = cells{byName: map[CellName]*cell{}} }

// cellList is a list through the cells themselves; a cell is in one at most.
type cellList struct {
	head, tail *cell
	len        int
}

func (l *cellList) pushBack(c *cell) {
	c.in, c.prev, c.next = l, l.tail, nil
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.next = c
	}
	l.tail = c
	l.len++
}

func (l *cellList) pushFront(c *cell) {
	c.in, c.prev, c.next = l, nil, l.head
	if l.head == nil {
		l.tail = c
	} else {
		l.head.prev = c
	}
	l.head = c
	l.len++
}

func (c *cell) unlink() {
	l := c.in
	if l == nil {
		return
	}
	if c.prev == nil {
		l.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	l.len--
	c.in, c.prev, c.next = nil, nil, nil
}

// setPhase moves a cell and keeps the counts, the lists and the peers' sets.
func (s *State) setPhase(c *cell, to cellPhase) {
	cs := &s.cells
	if p := s.peers.byID[c.owner]; p != nil && (c.phase == cellConsulting || c.phase == cellStuck) {
		delete(p.cells, c.name)
	}
	cs.slots += count(to.resolving()) - count(c.phase.resolving())
	cs.claims += count(to.claiming()) - count(c.phase.claiming())
	cs.owned += count(to.owned()) - count(c.phase.owned())
	cs.leaving += count(to.leaving()) - count(c.phase.leaving())
	c.phase = to
	c.unlink()
	switch to {
	case cellRemote:
		cs.routes.pushBack(c)
	case cellQueued:
		cs.queue.pushBack(c)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// job returns the cell's work, made if there is none.
func (s *State) job(c *cell) *work {
	if c.work == nil {
		c.work = &work{wake: never}
		s.cells.working++
	}
	return c.work
}

func (s *State) endJob(c *cell) {
	if c.work != nil {
		c.work = nil
		s.cells.working--
	}
}

// arm sets when cellDue is called.
func (s *State) arm(c *cell, at Time) {
	c.work.wake = at
	s.timers.push(timer{at: at, kind: timerCell, name: string(c.name)})
}

// newCell adds a cell of which nothing is known.
func (s *State) newCell(name CellName) *cell {
	c := &cell{name: name, phase: cellStuck}
	s.cells.byName[name] = c
	return c
}

// drop forgets a cell for which nothing waits.
func (s *State) drop(c *cell) {
	s.setPhase(c, cellStuck) // takes it out of every list and count
	s.endJob(c)
	delete(s.cells.byName, c.name)
}

// resolve begins to find out who owns a cell, keeping what waits on it.
func (s *State) resolve(c *cell) {
	var waiters []RequestID
	if c.work != nil {
		waiters = c.work.waiters
	}
	s.setPhase(c, cellQueued)
	*s.job(c) = work{wake: never, waiters: waiters}
}

// vacant: another cell may be resolved. Those whose activation failed still
// leave; what they take is bounded too.
func (s *State) vacant() bool {
	cs := &s.cells
	return cs.slots < s.cfg.MaxActivations && cs.slots+cs.leaving < s.cfg.MaxActivations+s.cfg.MaxReleases
}

// admit starts resolving the cells that were queued first.
func (s *State) admit(o *out) {
	for c := s.cells.queue.head; c != nil && s.vacant(); c = s.cells.queue.head {
		s.readOwner(c, o)
	}
}

func (s *State) readOwner(c *cell, o *out) {
	s.setPhase(c, cellReading)
	c.work.op = s.op()
	s.arm(c, s.now+s.cfg.OpDeadline)
	o.add(ReadOwner{Op: c.work.op, Cell: c.name, Deadline: c.work.wake})
}

// cellDue: an operation took too long, or a pause is over.
func (s *State) cellDue(c *cell, o *out) {
	w := c.work
	w.wake = never
	switch c.phase {
	case cellReading:
		s.ownerRead(c, OwnerRead{Outcome: ReadFailed}, o)
	case cellClaiming:
		s.claimed(c, OwnerWritten{Outcome: Ambiguous}, o)
	case cellPausing:
		s.pauseOver(c, o)
	case cellActivating:
		s.activated(c, Activated{Detail: "the activation took too long"}, o)
	case cellDeactivating:
		s.sendRelease(c, o)
	case cellReleasing:
		s.releaseDue(c, o)
	case cellRemote, cellStuck: // somebody still wants it
		s.resolve(c)
	}
}

func (ev OwnerRead) apply(s *State, o *out) {
	c := s.cells.byName[ev.Cell]
	if c == nil || c.work == nil || c.work.op == 0 || c.work.op != ev.Op {
		return
	}
	if c.phase == cellReleasing {
		s.releaseRead(c, ev, o)
	} else {
		s.ownerRead(c, ev, o)
	}
}

// ownerRead goes on by what the ownership record says.
func (s *State) ownerRead(c *cell, ev OwnerRead, o *out) {
	w := c.work
	w.op = 0
	ours := ev.Outcome == Found && ev.Owner.Node == s.lease.node
	landed := ours && w.claim != 0 && w.claim == ev.Owner.Epoch
	if ev.Outcome != ReadFailed {
		if ev.Version != c.version && !landed {
			w.claim = 0 // what was sent expects the old version: it can land no more
		}
		c.epoch, c.version, c.owner = ev.Owner.Epoch, ev.Version, ""
	}
	switch {
	case ev.Outcome == ReadFailed:
		s.failAll(c, Failure{Code: CodeStoreUnavailable, RetryAfter: s.cfg.Renew, Detail: "the ownership record could not be read"}, o)
	case ev.Outcome == BadRecord:
		s.failAll(c, Failure{Code: CodeBadRecord, Detail: "the ownership record is not one"}, o)
	case landed:
		// A claim of this attempt, whose answer was lost (S1: nobody else
		// writes this node's id).
		s.settledClaim(c, ev.Version, o)
	case ours && s.drain.on: // a claim that landed late
		s.disown(c, ev.Version, o)
	case len(w.waiters) == 0:
		s.giveUp(c)
	case ev.Outcome == Found && ev.Owner.Node != "" && !ours:
		c.owner = ev.Owner.Node
		s.consult(c, o)
	default: // absent, released, or this node's from an earlier life of the cell
		w.prior, w.takeover = "", nil
		s.claim(c, o)
	}
}

// consult goes on by what is known of the owner; it may wait for a reading.
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

// peerLearned: something that the cell waited for was learned of its owner.
func (s *State) peerLearned(c *cell, o *out) {
	if s.peers.dead[c.owner].Node != "" {
		if c.phase == cellConsulting {
			s.consult(c, o)
		} else if c.phase == cellStuck {
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
	}
}

// located: another node owns the cell, and is not provably dead.
func (s *State) located(c *cell, p *peer, o *out) {
	switch {
	case p.bad:
		s.failAll(c, Failure{Code: CodeBadRecord, Node: c.owner, Epoch: c.epoch, Detail: "the owner's lease is not a lease record"}, o)
	case p.lost:
		s.failAll(c, Failure{Code: CodeStoreUnavailable, Node: c.owner, Epoch: c.epoch, RetryAfter: s.cfg.Renew, Detail: "the owner's lease could not be read"}, o)
	case s.unreachable(p):
		s.stuck(c, p, o)
	case p.lease.Protocol != s.cfg.Protocol:
		s.failAll(c, Failure{Code: CodePeerIncompatible, Node: c.owner, Epoch: c.epoch, Detail: "the owner speaks another peer protocol"}, o)
	default:
		s.routeAll(c, p, o)
	}
}

// unreachable: nothing can be sent to it now.
func (s *State) unreachable(p *peer) bool {
	return p.suspect || p.seen.absent || p.lease.Addr == ""
}

// stuck lets requests wait for the owner's death or return, as long as each of
// them may, and fails the others.
func (s *State) stuck(c *cell, p *peer, o *out) {
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

func (s *State) unreachableNow(p *peer, c *cell) Failure {
	return Failure{Code: CodeOwnerUnreachable, Node: p.id, Epoch: c.epoch, RetryAfter: s.provable(p) - s.now,
		Detail: "the owner cannot be reached and is not provably dead yet"}
}

// remote keeps the cell as a route, within the bound.
func (s *State) remote(c *cell) {
	s.setPhase(c, cellRemote)
	c.version = ""
	if c.work != nil && len(c.work.waiters) == 0 {
		s.endJob(c)
	}
	for s.cells.routes.len > s.cfg.MaxRoutes {
		old := s.cells.routes.head
		if old.work != nil { // wanted: as recent as any
			old.unlink()
			s.cells.routes.pushBack(old)
			return
		}
		s.drop(old)
	}
}

// routeAll sends what waits to the owner; what wants to own the cell stays.
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
		default:
			s.forward(r, c, p, o)
		}
	}
	w.op = 0
	s.remote(c)
	if c.work != nil {
		s.arm(c, s.now+s.cfg.Renew)
	}
}

// route sends one request to the owner of a remote cell, or resolves the cell
// anew where the route cannot be relied on.
func (s *State) route(c *cell, r *request, o *out) {
	p := s.peers.byID[c.owner]
	switch {
	case s.routable(c, r):
		c.unlink()
		s.cells.routes.pushBack(c)
		s.forward(r, c, p, o)
	case r.own || r.forwarded || p == nil || !s.vacant():
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
		s.now-p.checked <= s.cfg.TTL && !s.unreachable(p)
}

// failAll answers everything that waits with the failure and gives the cell up.
func (s *State) failAll(c *cell, f Failure, o *out) {
	for _, r := range s.takeWaiters(c) {
		s.failNow(r, f, o)
	}
	s.giveUp(c)
}

// giveUp forgets a cell for which nothing waits. A draining node first looks,
// a few times, for a claim of its own that may land late, to release it.
func (s *State) giveUp(c *cell) {
	w := c.work
	if s.drain.on && w.claim != 0 && w.reconciles <= MaxAcquireReconciles {
		w.reconciles++
		s.pause(c, false)
		return
	}
	s.drop(c)
}
