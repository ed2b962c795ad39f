package core

import (
	"fmt"
	"maps"
	"slices"
)

// Archive stores the fields of a State by name, or loads them: each call does
// either, so that one list of fields serves both and they cannot drift apart.
// Names are unique within their group or item.
type Archive interface {
	// Number is any number, flag or time; a uint64 passes as its bits. A field that
	// is not in the archive is loaded as zero.
	Number(name string, v *int64)
	// Text is any string; one that is not in the archive is loaded as empty.
	Text(name string, v *string)
	// Group calls fields once, for the fields of a part.
	Group(name string, fields func())
	// List calls item for each of n items; when loading n means nothing, and it is
	// called for each one stored.
	List(name string, n int, item func(i int))
}

// Save stores the whole State, but for the effects of its last Step. It costs
// time proportional to the state.
func (s *State) Save(a Archive) {
	im := image{state: *s, requests: s.reqs.sorted(), queue: s.cells.queue.names(), idle: s.cells.idle.names(), routes: s.cells.routes.names()}
	for _, name := range slices.Sorted(maps.Keys(s.cells.byName)) {
		im.cells = append(im.cells, s.cells.byName[name])
	}
	for _, p := range s.peers.sorted() {
		im.peers = append(im.peers, peerImage{peer: p, sent: slices.Sorted(maps.Keys(p.sent)), cells: slices.Sorted(maps.Keys(p.cells))})
	}
	for _, id := range s.peers.deadOrder {
		im.dead = append(im.dead, s.peers.dead[id])
	}
	im.fields(a)
}

// Restore returns a State that decides as the one saved. An error says that what
// was loaded is not a state.
func Restore(a Archive) (*State, error) {
	var im image
	im.fields(a)
	s := &im.state
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	s.reqs.byID = make(map[RequestID]*request, len(im.requests))
	for _, r := range im.requests {
		s.reqs.byID[r.id] = r
	}
	if err := im.restorePeers(&s.peers); err != nil {
		return nil, err
	}
	if err := im.restoreCells(&s.cells); err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("what was restored is not a state: %w", err)
	}
	return s, nil
}

// image is a State with lists in the place of maps and of pointers between its
// parts.
type image struct {
	state               State // of which maps and lists of cells mean nothing
	requests            []*request
	peers               []peerImage
	dead                []Evidence // the oldest verdict first
	cells               []*cell
	queue, idle, routes []CellName
}

type peerImage struct {
	*peer
	sent  []RequestID
	cells []CellName
}

func (l *cellList) names() []CellName {
	names := make([]CellName, 0, l.len)
	for c := l.head; c != nil; c = c.next {
		names = append(names, c.name)
	}
	return names
}

func (im *image) restorePeers(ps *peers) error {
	ps.byID, ps.dead, ps.deadOrder = make(map[NodeID]*peer, len(im.peers)), make(map[NodeID]Evidence, len(im.dead)), nil
	for _, ev := range im.dead {
		ps.dead[ev.Node] = ev
		ps.deadOrder = append(ps.deadOrder, ev.Node)
	}
	for _, p := range im.peers {
		p.peer.sent, p.peer.cells = map[RequestID]*request{}, map[CellName]bool{}
		for _, id := range p.sent {
			r := im.state.reqs.byID[id]
			if r == nil {
				return fmt.Errorf("restore: request %d was sent to %s, but there is none", id, p.id)
			}
			p.peer.sent[id] = r
		}
		for _, name := range p.cells {
			p.peer.cells[name] = true
		}
		ps.byID[p.id] = p.peer
	}
	return nil
}

func (im *image) restoreCells(cs *cells) error {
	cs.byName = make(map[CellName]*cell, len(im.cells))
	for _, c := range im.cells {
		if int(c.phase) >= len(phaseNames) {
			return fmt.Errorf("restore: cell %s is in phase %d, which does not exist", c.name, c.phase)
		}
		cs.byName[c.name] = c
	}
	for _, list := range []struct {
		to    *cellList
		names []CellName
	}{{&cs.queue, im.queue}, {&cs.idle, im.idle}, {&cs.routes, im.routes}} {
		*list.to = cellList{}
		for _, name := range list.names {
			c := cs.byName[name]
			if c == nil || c.in != nil {
				return fmt.Errorf("restore: cell %s is in a list that it cannot be in", name)
			}
			list.to.pushBack(c)
		}
	}
	return nil
}
