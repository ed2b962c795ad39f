package core

import (
	"maps"
	"slices"
)

// Clone returns a State that decides as this one would, and shares no memory
// with it: a checker can try each event on a clone. The effects of the
// last Step stay with the original. A pointer, slice or map that is added to
// the state must be copied here; a test walks both and finds what they share.
func (s *State) Clone() *State {
	n := *s
	n.out = out{}
	n.lease.attempts = slices.Clone(s.lease.attempts)
	n.clock.samples = slices.Clone(s.clock.samples)
	n.timers.heap = slices.Clone(s.timers.heap)
	n.reqs.byID = make(map[RequestID]*request, len(s.reqs.byID))
	for _, r := range s.reqs.sorted() {
		c := *r
		n.reqs.byID[r.id] = &c
	}
	n.peers = s.peers.clone(n.reqs.byID)
	s.cells.cloneTo(&n.cells)
	return &n
}

// clone copies the peers; what was sent to them is among the requests given.
func (ps *peers) clone(reqs map[RequestID]*request) peers {
	n := *ps
	n.byID = make(map[NodeID]*peer, len(ps.byID))
	n.dead = maps.Clone(ps.dead)
	n.deadOrder = slices.Clone(ps.deadOrder)
	n.unread = slices.Clone(ps.unread)
	for _, p := range ps.sorted() {
		c := *p
		c.cells = maps.Clone(p.cells)
		c.sent = make(map[RequestID]*request, len(p.sent))
		for _, r := range sortedRequests(p.sent) {
			c.sent[r.id] = reqs[r.id]
		}
		n.byID[p.id] = &c
	}
	return n
}

// cloneTo clones in place: cells point to the list that they are in.
func (cs *cells) cloneTo(n *cells) {
	n.byName = make(map[CellName]*cell, len(cs.byName))
	for _, name := range slices.Sorted(maps.Keys(cs.byName)) {
		c := *cs.byName[name]
		c.prev, c.next, c.in = nil, nil, nil
		c.work = c.work.clone()
		n.byName[name] = &c
	}
	n.queue, n.idle, n.routes = cellList{}, cellList{}, cellList{}
	n.queue.follow(&cs.queue, n.byName)
	n.idle.follow(&cs.idle, n.byName)
	n.routes.follow(&cs.routes, n.byName)
}

// follow puts cells of the same names into the same order.
func (l *cellList) follow(model *cellList, byName map[CellName]*cell) {
	for c := model.head; c != nil; c = c.next {
		l.pushBack(byName[c.name])
	}
}

func (w *work) clone() *work {
	if w == nil {
		return nil
	}
	n := *w
	n.waiters = slices.Clone(w.waiters)
	if w.takeover != nil {
		ev := *w.takeover
		n.takeover = &ev
	}
	return &n
}
