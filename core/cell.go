package core

// Cells: who owns them, as far as this node knows, and how it finds out. This
// file holds the table and the way from "unknown" to the ownership record;
// route.go goes on where another node owns the cell, owned.go from a claim.
//
//	unknown → queued → reading → consulting → remote
//	             ↑       ↑  ↓        ↓  └───→ stuck
//	             │  doubt│  │unowned │dead
//	             │       │  ↓        ↓
//	             │     claiming ⇄ pausing
//	             │          ↓ applied
//	             │     activating → owned
//	             │          ↓ failed  ↓ evicted
//	             └──── releasing ← deactivating
//
// Not drawn: a claim of its own that the reading finds to have landed is activated
// (in a drain, released) without another; remote and stuck go back to queued when
// somebody wants the cell and the route does not serve; a cell whose requests were
// all failed before it was claimed is unknown again, or remote where its owner is
// known; releasing ends as unknown unless somebody waits. No arrow leads from
// consulting or stuck to a claim but a death (S3).
//
// Only the ownership record moves a cell towards "owned". What is known of nodes
// and routes decides where to send a request, never whose the cell is.

// cellPhase is the one thing that a cell does at a time. The order of the phases
// matters to resolving.
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

// claiming counts against MaxCells: a claim under way needs its place.
// owned: this node's, by a claim that is known to be applied.
// leaving: this node's still, by the record, and never served again at its epoch.
func (p cellPhase) claiming() bool { return p == cellClaiming || p == cellPausing }
func (p cellPhase) owned() bool    { return p == cellActivating || p == cellOwned }
func (p cellPhase) leaving() bool  { return p == cellDeactivating || p == cellReleasing }

// resolving: the cell holds one of the MaxActivations places.
func (p cellPhase) resolving() bool { return p >= cellReading && p <= cellActivating }

// cell is one entry of the table. It is kept small, since a node may own a great
// many that are idle: what only a change needs is in work.
type cell struct {
	name    CellName
	phase   cellPhase
	evict   Reason // asked for: leave when nothing runs any more; cleared by leave
	running int32  // requests dispatched and not done; 0 unless it is served
	held    bool   // requests were held back once, so that it falls idle
	epoch   Epoch  // of our claim, or of the owner's as last read
	// version is that of the record as last read, or as our claim made it: what
	// the next claim, or the release, expects. Empty for an absent record, and for
	// a route, which must be read again before anything is claimed.
	version  Version
	owner    NodeID // the other node that owns it, or did; empty once it is ours
	lastUsed Time   // when the last request was done; valid among the idle
	work     *work  // only while something is under way or waits

	prev, next *cell
	in         *cellList // the list that it is in, nil if in none
}

// work is what a cell needs only while it changes hands or requests wait. A cell
// that is settled has none, so an idle one costs no more than its entry (B1).
type work struct {
	op   OpID // 0: none is under way, and any completion is stale
	wake Time // deadline of op, or when to go on; "never" only if something else ends the wait
	// waiters are requests that wait for the outcome, first come first served.
	waiters []RequestID

	claim      Epoch     // of a claim that was sent and is not settled; 0: none
	claimAgain bool      // after the pause, send the same claim rather than read
	reconciles int       // read-backs after ambiguous claims or releases
	pauses     uint      // in a row, a first rejection included: each doubles the next
	prior      NodeID    // the dead owner that a takeover replaces
	takeover   *Evidence // of its death; nil if the cell was unowned
	readBack   bool      // op reads a release back
}

// cells is the table. The counts of phases are kept by setPhase alone, and counted
// anew by Check; every bound on cells is a comparison with one of them (B1).
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

// cellList is a list through the cells themselves; a cell is in one at most. A cell
// leaves it from anywhere at the same cost, however many are idle.
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

// setPhase moves a cell and keeps the counts, the lists and the peers' sets. No
// other code changes a phase. The cell is in no list afterwards, but for queued
// and remote: an owned cell on which nothing runs is put among the idle by rest.
func (s *State) setPhase(c *cell, to cellPhase) {
	cs := &s.cells
	if p := s.peers.byID[c.owner]; p != nil && (c.phase == cellConsulting || c.phase == cellStuck || c.phase == cellRemote) {
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

// job returns the cell's work, made if there is none. The caller arms it, or leaves
// the cell where something else ends the wait.
func (s *State) job(c *cell) *work {
	if c.work == nil {
		c.work = &work{wake: never}
		s.cells.working++
	}
	return c.work
}

// endJob drops the work of a cell that is settled: an idle cell keeps none.
func (s *State) endJob(c *cell) {
	if c.work != nil {
		c.work = nil
		s.cells.working--
	}
}

// arm sets when cellDue is called: once, unless armed again. What was set before
// is void.
func (s *State) arm(c *cell, at Time) {
	c.work.wake = at
	s.timers.push(timer{at: at, kind: timerCell, name: string(c.name)})
}

// newCell adds a cell of which nothing is known. Its phase counts nowhere; the
// caller resolves it at once.
func (s *State) newCell(name CellName) *cell {
	c := &cell{name: name, phase: cellStuck}
	s.cells.byName[name] = c
	return c
}

// drop forgets a cell for which nothing waits. The next request for it asks the
// bucket anew.
func (s *State) drop(c *cell) {
	s.setPhase(c, cellStuck) // takes it out of every list and count
	s.endJob(c)
	delete(s.cells.byName, c.name)
}

// resolve begins to find out who owns a cell, keeping what waits on it. What an
// earlier attempt learned of the record is forgotten, and with it any evidence for
// a takeover: the next claim is against a record read after this.
func (s *State) resolve(c *cell) {
	var waiters []RequestID
	if c.work != nil {
		waiters = c.work.waiters
	}
	s.setPhase(c, cellQueued)
	*s.job(c) = work{wake: never, waiters: waiters}
}

// vacant: another cell may be resolved. Those whose activation failed still
// leave; what they take is bounded too, or an application that fails every
// activation would let the cells on their way out pile up (B1).
func (s *State) vacant() bool {
	cs := &s.cells
	return cs.slots < s.cfg.MaxActivations && cs.slots+cs.leaving < s.cfg.MaxActivations+s.cfg.MaxReleases
}

// admit starts resolving the cells that were queued first. It runs at the end of
// each Step, so a place that falls free is taken in the same Step.
func (s *State) admit(o *out) {
	for c := s.cells.queue.head; c != nil && s.vacant(); c = s.cells.queue.head {
		s.readOwner(c, o)
	}
}

// readOwner asks the bucket: the record alone says who owns a cell. It begins
// each resolution, and follows each write whose outcome is in doubt. A reading
// that is not answered by OpDeadline has failed.
func (s *State) readOwner(c *cell, o *out) {
	s.setPhase(c, cellReading)
	c.work.op = s.op()
	s.arm(c, s.now+s.cfg.OpDeadline)
	o.add(ReadOwner{Op: c.work.op, Cell: c.name, Deadline: c.work.wake})
}

// cellDue: an operation took too long, or a pause is over. A write that took too
// long is ambiguous, for it may land yet; a reading or a hook has failed. This is
// what ends every wait of a cell whose completion never comes (L1).
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
	case cellOwned: // held back for long enough
		s.admitAll(c, o)
	}
}

// A reading that is not the one under way is older than what is known.
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

// ownerRead goes on by what the ownership record says. It is also where an
// ambiguous claim is settled. The record names this node at the claimed epoch: it
// was applied, for nobody else claims in this node's name. The version has
// changed otherwise: it can land no more, since it expects the old one. Neither:
// it may still land, and w.claim remembers that.
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

// failAll answers everything that waits with the failure and gives the cell up.
// None of them was run: a forward comes back to wait only if it certainly was not.
func (s *State) failAll(c *cell, f Failure, o *out) {
	for _, r := range s.takeWaiters(c) {
		s.failNow(r, f, o)
	}
	s.giveUp(c)
}

// giveUp forgets a cell for which nothing waits. First it looks, a few times, for
// a claim of its own that may land late: a record that names a live node which
// does not know of it would keep everybody away who wants to own the cell. Found,
// it is activated like any other, and leaves like any other. One that lands later
// still is found by the next request for the cell that reaches this node.
func (s *State) giveUp(c *cell) {
	w := c.work
	if w.claim != 0 && w.reconciles <= MaxAcquireReconciles {
		w.reconciles++
		s.pause(c, false)
		return
	}
	s.drop(c)
}
