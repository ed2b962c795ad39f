package core

// timers is a heap of wake-up times. An entry is never removed when its owner
// changes its mind: it is stale if the owner's own wake time differs, and the
// heap is rebuilt when stale entries outnumber the rest, which bounds it (B1).
// To search the heap for each change of mind would cost more than to pass over
// what is stale. Each cell, peer and request has one wake-up time at most.
type timers struct{ heap []timer }

type timer struct {
	at   Time
	kind timerKind
	name string // of a cell or node
	id   RequestID
}

type timerKind uint8

const (
	timerCell timerKind = iota
	timerPeer
	timerRequest
)

// less orders by time; ties by identity, so that the order of firing depends
// on nothing else.
func (t timer) less(u timer) bool {
	switch {
	case t.at != u.at:
		return t.at < u.at
	case t.kind != u.kind:
		return t.kind < u.kind
	case t.id != u.id:
		return t.id < u.id
	}
	return t.name < u.name
}

// due reports whether the earliest entry's time has come.
func (ts *timers) due(now Time) bool { return len(ts.heap) > 0 && ts.heap[0].at <= now }

// next is the earliest entry. After trim it is not stale; a stale one would be an
// idle wake-up, which is harmless.
func (ts *timers) next() Time {
	if len(ts.heap) == 0 {
		return never
	}
	return ts.heap[0].at
}

// push adds an entry; "never" needs none.
func (ts *timers) push(t timer) {
	if t.at >= never {
		return
	}
	ts.heap = append(ts.heap, t)
	for i := len(ts.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !ts.heap[i].less(ts.heap[up]) {
			break
		}
		ts.heap[i], ts.heap[up] = ts.heap[up], ts.heap[i]
		i = up
	}
}

// pop removes the earliest entry and returns it.
func (ts *timers) pop() timer {
	top := ts.heap[0]
	last := len(ts.heap) - 1
	ts.heap[0], ts.heap[last] = ts.heap[last], timer{}
	ts.heap = ts.heap[:last]
	ts.sink(0)
	return top
}

// sink restores the heap below an entry that may be too late for its place.
func (ts *timers) sink(i int) {
	for {
		low := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < len(ts.heap) && ts.heap[k].less(ts.heap[low]) {
				low = k
			}
		}
		if low == i {
			return
		}
		ts.heap[i], ts.heap[low] = ts.heap[low], ts.heap[i]
		i = low
	}
}

// trim drops stale entries from the top, so that Next is exact, and all of
// them when they are too many.
func (ts *timers) trim(s *State) {
	for len(ts.heap) > 0 && !s.live(ts.heap[0]) {
		ts.pop()
	}
	if len(ts.heap) <= 64+2*(len(s.reqs.byID)+len(s.peers.byID)+s.cells.working) {
		return
	}
	kept := ts.heap[:0]
	for _, t := range ts.heap {
		if s.live(t) {
			kept = append(kept, t)
		}
	}
	clear(ts.heap[len(kept):])
	ts.heap = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		ts.sink(i)
	}
}

// live reports whether an entry still is its owner's wake-up time.
func (s *State) live(t timer) bool {
	switch t.kind {
	case timerCell:
		c := s.cells.byName[CellName(t.name)]
		return c != nil && c.work != nil && c.work.wake == t.at
	case timerPeer:
		p := s.peers.byID[NodeID(t.name)]
		return p != nil && p.wake == t.at
	default:
		r := s.reqs.byID[t.id]
		return r != nil && r.wake == t.at
	}
}
