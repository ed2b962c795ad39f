package core

import (
	"fmt"
	"maps"
	"slices"
)

// Check reports the first broken invariant of the state, nil if there is none.
// It is for tests; it costs time
// proportional to the state. It holds after each Step, not within one. What spans
// several nodes (S1 to S4) cannot be seen from here: that takes somebody who
// watches the bucket and all the answers.
func (s *State) Check() error {
	if s.lease.phase == leaseOver {
		return s.checkOver()
	}
	for _, check := range []func() error{s.checkLease, s.checkCells, s.checkRequests, s.checkPeers, s.checkBounds} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) checkOver() error {
	if n := len(s.cells.byName) + len(s.reqs.byID) + len(s.peers.byID); n != 0 { // S7
		return fmt.Errorf("core: over, but %d entries are left", n)
	}
	return nil
}

// checkLease: authority lies within the lease, and nothing is served without.
func (s *State) checkLease() error {
	l := &s.lease
	switch {
	case l.phase == leaseHeld && s.now >= l.end: // S5
		return fmt.Errorf("core: holds the lease at %d, past its end %d", s.now, l.end)
	case l.phase == leaseHeld && (l.version == "" || l.node == ""):
		return fmt.Errorf("core: holds a lease without a version or node")
	case l.phase == leaseHeld && l.wake == never:
		return fmt.Errorf("core: holds a lease and will never renew it")
	case l.phase != leaseHeld && (s.cells.owned > 0 || len(s.reqs.byID) > 0):
		return fmt.Errorf("core: owns %d cells and has %d requests without a lease", s.cells.owned, len(s.reqs.byID))
	}
	return nil
}

// checkCells counts anew what the machines count as they go. A count that drifts
// would lift a bound, or keep a place occupied for ever, long before anybody sees.
func (s *State) checkCells() error {
	cs := &s.cells
	var n struct{ slots, claims, owned, leaving, working, idle, routes int }
	for _, name := range slices.Sorted(maps.Keys(cs.byName)) {
		c := cs.byName[name]
		n.slots += count(c.phase.resolving())
		n.claims += count(c.phase.claiming())
		n.owned += count(c.phase.owned())
		n.leaving += count(c.phase.leaving())
		n.working += count(c.work != nil)
		n.idle += count(c.in == &cs.idle)
		n.routes += count(c.in == &cs.routes)
		if err := s.checkCell(c); err != nil {
			return fmt.Errorf("core: cell %s (%s): %w", name, c.phase, err)
		}
	}
	if n.slots != cs.slots || n.claims != cs.claims || n.owned != cs.owned || n.leaving != cs.leaving || n.working != cs.working || n.idle != cs.idle.len || n.routes != cs.routes.len {
		return fmt.Errorf("core: cells are %+v, counted %d %d %d %d %d %d %d", n, cs.slots, cs.claims, cs.owned, cs.leaving, cs.working, cs.idle.len, cs.routes.len)
	}
	return nil
}

// checkCell: each phase has what it stands for.
func (s *State) checkCell(c *cell) error {
	steady := c.phase == cellOwned || c.phase == cellRemote
	switch {
	case !steady && c.work == nil:
		return fmt.Errorf("nothing is under way")
	case c.phase == cellOwned && c.work != nil && (len(c.work.waiters) == 0 || !c.held):
		return fmt.Errorf("is served, yet something is under way")
	case c.phase == cellOwned && (c.epoch == 0 || c.version == ""):
		return fmt.Errorf("is served without an epoch or version")
	case c.phase == cellOwned && (c.running == 0) != (c.in == &s.cells.idle):
		return fmt.Errorf("%d requests run, idle %v", c.running, c.in == &s.cells.idle)
	case c.phase != cellOwned && c.running != 0:
		return fmt.Errorf("%d requests run on a cell that is not served", c.running)
	case c.phase == cellRemote && c.in != &s.cells.routes:
		return fmt.Errorf("a route outside the list of routes")
	case (c.phase == cellRemote || c.phase == cellStuck || c.phase == cellConsulting) && c.owner == "":
		return fmt.Errorf("no owner")
	case c.phase == cellStuck && len(c.work.waiters) == 0:
		return fmt.Errorf("nothing waits")
	}
	return s.checkWaits(c)
}

// checkWaits sees to it that something ends every wait of a cell (L1): a deadline
// or pause of its own, a reading or probe of its owner, or, in the queue, the cells
// ahead of it, all of which have one of these.
func (s *State) checkWaits(c *cell) error {
	if c.work == nil {
		return nil
	}
	for _, id := range c.work.waiters {
		r := s.reqs.byID[id]
		if r == nil || r.state != requestWaiting || r.cell != c.name {
			return fmt.Errorf("request %d does not wait for it", id)
		}
	}
	if c.phase == cellConsulting {
		p := s.peers.byID[c.owner]
		if p == nil || !p.cells[c.name] || p.op == 0 && p.probe == 0 {
			return fmt.Errorf("waits for a reading that is not under way")
		}
		return nil
	}
	if c.work.wake == never && c.phase != cellQueued {
		return fmt.Errorf("no deadline")
	}
	return nil
}

// checkRequests: each is known where it waits, runs or was sent, and something
// ends it.
func (s *State) checkRequests() error {
	var waiting, grants int
	running := map[CellName]int32{}
	for _, r := range s.reqs.sorted() {
		waiting += count(r.state == requestWaiting)
		grants += count(r.granted)
		c := s.cells.byName[r.cell]
		switch {
		case r.state == requestWaiting && (c == nil || c.work == nil || !slices.Contains(c.work.waiters, r.id)):
			return fmt.Errorf("core: request %d waits for %s, where nothing knows of it", r.id, r.cell)
		case r.state == requestSent && (s.peers.byID[r.node] == nil || s.peers.byID[r.node].sent[r.id] != r):
			return fmt.Errorf("core: request %d was sent to %s, where nothing knows of it", r.id, r.node)
		case !r.answered && !r.failed && !r.granted && r.wake == never: // L1
			return fmt.Errorf("core: request %d has no deadline", r.id)
		}
		if r.state == requestRunning {
			running[r.cell]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(running)) {
		if c := s.cells.byName[name]; c == nil || c.running != running[name] {
			return fmt.Errorf("core: %d requests run on cell %s, which counts otherwise", running[name], name)
		}
	}
	if waiting != s.reqs.waiting || grants != s.reqs.grants {
		return fmt.Errorf("core: %d requests wait, counted %d; %d grants, counted %d", waiting, s.reqs.waiting, grants, s.reqs.grants)
	}
	return nil
}

// checkPeers: what is waited for comes, or is given up.
func (s *State) checkPeers() error {
	reading := 0
	for _, p := range s.peers.sorted() {
		reading += count(p.op != 0)
		unanswered := 0
		for _, r := range sortedRequests(p.sent) {
			unanswered += count(!r.answered)
		}
		switch {
		case unanswered != p.unanswered:
			return fmt.Errorf("core: peer %s has %d unanswered requests, counted %d", p.id, unanswered, p.unanswered)
		case s.peers.dead[p.id].Node != "":
			return fmt.Errorf("core: peer %s is known to be dead", p.id)
		case (p.op != 0 || p.probe != 0 || p.silent()) && p.wake == never:
			return fmt.Errorf("core: nothing ends the wait for peer %s", p.id)
		}
		for _, name := range slices.Sorted(maps.Keys(p.cells)) {
			if c := s.cells.byName[name]; c == nil || c.owner != p.id || c.work == nil {
				return fmt.Errorf("core: cell %s does not wait for peer %s", name, p.id)
			}
		}
	}
	if reading != s.peers.reading {
		return fmt.Errorf("core: %d leases are being read, counted %d", reading, s.peers.reading)
	}
	return nil
}

// checkBounds: B1.
func (s *State) checkBounds() error {
	for _, b := range []struct {
		what   string
		n, max int
	}{
		{"cells being resolved", s.cells.slots, s.cfg.MaxActivations},
		// Failed activations leave beside MaxReleases.
		{"cells leaving", s.cells.leaving, s.cfg.MaxReleases + s.cfg.MaxActivations},
		{"resident cells", s.cells.owned * count(s.cfg.MaxCells > 0), s.cfg.MaxCells + s.cfg.MaxActivations},
		{"queued cells", s.cells.queue.len, s.reqs.waiting},
		// A route on which a request waits for the cell is kept.
		{"routes", s.cells.routes.len, s.cfg.MaxRoutes + s.reqs.waiting},
		{"dead nodes", len(s.peers.dead), s.cfg.MaxPeers},
		{"lease attempts", len(s.lease.attempts), maxAttempts},
	} {
		if b.n > b.max {
			return fmt.Errorf("core: %d %s, at most %d are allowed", b.n, b.what, b.max)
		}
	}
	return nil
}
