package core

import (
	"maps"
	"slices"
)

// Canon is a canonical form of one State: two states with equal forms take equal
// events to equal effects and to states with equal forms, but for names. A model
// checker that has seen a form need not look at it again.
//
// Times count only as differences from now, up to the longest interval that
// anything is compared with; operations only by equality. What else has a name, a
// node, a version or an epoch, is left blank in Buf and listed in Names: only
// somebody who sees the whole world can give each a name that means the same in each
// of its states. Nodes and versions count only by equality, epochs only as equal to,
// next after or older than the one in the bucket.
//
// What only effects carry and nothing is decided by is left out: evidence, who owned
// a cell before, whether to use a new connection.
type Canon struct {
	// Now is this node's clock, Store the store's, at the same instant.
	Now, Store Time
	// Order sorts nodes; it must not depend on what is only a name.
	Order func(NodeID) int
	// Buf and Names are appended to.
	Buf   []byte
	Names []Name
	// Ops are the operations that the State awaits, each named by its place, from 1.
	Ops []OpID
}

// Name is what belongs in the one byte of a form at At: a node, a version, or the
// epoch of a cell.
type Name struct {
	At      int
	Node    NodeID
	Version Version
	Cell    CellName
	Epoch   Epoch
}

// Canon appends the canonical form of s.
func (s *State) Canon(c *Canon) {
	s.lease.canon(s, c)
	s.clock.canon(s, c)
	s.peers.canon(s, c)
	s.cells.canon(s, c)
	s.reqs.canon(c)
	c.flags(s.drain.on, s.drain.closing)
	c.until(s.drain.cut)
	c.until(s.drain.ends)
}

// Awaits reports whether the completion of an effect would still be taken.
func (s *State) Awaits(e Effect) bool {
	switch e := e.(type) {
	case WriteLease:
		return s.lease.op == e.Op
	case ListLeases:
		return s.lease.listOp == e.Op
	case ReadLease:
		p := s.peers.byID[e.Node]
		return s.lease.op == e.Op || p != nil && p.op == e.Op
	case Probe:
		p := s.peers.byID[e.Node]
		return p != nil && p.probe == e.Op
	case ReadOwner:
		return s.cellAwaits(e.Cell, e.Op)
	case WriteOwner:
		return s.cellAwaits(e.Cell, e.Op)
	}
	return false
}

func (s *State) cellAwaits(name CellName, op OpID) bool {
	c := s.cells.byName[name]
	return c != nil && c.work != nil && c.work.op == op
}

// Names reports whether anything here leads to a node: a cell, or a request.
func (s *State) Names(id NodeID) bool {
	for _, name := range slices.Sorted(maps.Keys(s.cells.byName)) {
		if s.cells.byName[name].owner == id {
			return true
		}
	}
	p := s.peers.byID[id]
	return p != nil && (len(p.sent) > 0 || len(p.cells) > 0)
}

// Forget drops all that is known of a node that is not named here. If no record
// names it either, and it runs no more, it never will be: to know it changes
// nothing any more.
func (s *State) Forget(id NodeID) {
	if p := s.peers.byID[id]; p != nil {
		s.peers.reading -= count(p.op != 0)
		delete(s.peers.byID, id)
	}
	delete(s.peers.dead, id)
	is := func(n NodeID) bool { return n == id }
	s.peers.deadOrder = slices.DeleteFunc(s.peers.deadOrder, is)
	s.peers.unread = slices.DeleteFunc(s.peers.unread, is)
	s.timers.trim(s)
}

// Number appends a number that is not negative; small ones take one byte.
func (c *Canon) Number(n int64) {
	for ; n > 0x7f; n >>= 7 {
		c.Buf = append(c.Buf, byte(n)|0x80)
	}
	c.Buf = append(c.Buf, byte(n))
}

// flags appends up to eight of them.
func (c *Canon) flags(fs ...bool) {
	var b byte
	for _, f := range fs {
		b = b<<1 | byte(count(f))
	}
	c.Buf = append(c.Buf, b)
}

// until appends a time to come. One that has come is as good as any other that has.
func (c *Canon) until(t Time) {
	if t == never {
		c.Number(0)
		return
	}
	c.Number(int64(max(0, t-c.Now)) + 1)
}

// since appends how long ago something was, up to the longest that matters.
func (c *Canon) since(t, longest Time) {
	c.Number(int64(min(max(0, c.Now-t), longest)))
}

// op appends the name of an operation of this state.
func (c *Canon) op(op OpID) {
	if op == 0 {
		c.Buf = append(c.Buf, 0)
		return
	}
	c.Ops = append(c.Ops, op)
	c.Buf = append(c.Buf, byte(len(c.Ops)))
}

func (c *Canon) node(id NodeID)            { c.name(Name{Node: id}, id == "") }
func (c *Canon) version(v Version)         { c.name(Name{Version: v}, v == "") }
func (c *Canon) epoch(x CellName, e Epoch) { c.name(Name{Cell: x, Epoch: e}, false) }

func (c *Canon) name(n Name, none bool) {
	if n.At = len(c.Buf); !none {
		c.Names = append(c.Names, n)
	}
	c.Buf = append(c.Buf, 0xff)
}

func (c *Canon) cell(name CellName) {
	c.Number(int64(len(name)))
	c.Buf = append(c.Buf, name...)
}

// doublings bounds a count of pauses in a row: further ones are no longer.
func (s *State) doublings(n uint) int64 {
	most := uint(1)
	for most < 16 && s.cfg.RetryStep<<most < s.cfg.Renew {
		most++
	}
	return int64(min(n, most))
}

// Seq and generation never recur, so a record is known by its version, and a write
// by how many lie between it and the last.
func (l *lease) canon(s *State, c *Canon) {
	c.Buf = append(c.Buf, byte(l.phase), byte(l.step))
	c.flags(l.reading, l.listed)
	c.node(l.node)
	c.version(l.version)
	c.Number(int64(l.seq-l.confirmed) * int64(count(l.version != "")))
	c.Number(int64(len(l.attempts)))
	for _, a := range l.attempts {
		c.Number(int64(l.seq - a.seq))
		c.since(a.anchor, s.cfg.TTL)
	}
	c.until(l.end)
	c.until(l.wake)
	c.op(l.op)
	c.op(l.listOp)
	c.Number(s.doublings(l.restarts))
}

// A sample is a difference of two clocks; it is told apart by how far it is from
// the difference now.
func (k *storeClock) canon(s *State, c *Canon) {
	c.flags(k.running)
	if !k.running {
		return
	}
	off := c.Store - c.Now
	far := func(d Time) { // either side of it
		c.flags(d-off < 0)
		c.Number(int64(max(d-off, off-d)))
	}
	longest := s.cfg.TTL + s.cfg.Slack
	for _, p := range s.peers.sorted() {
		longest = max(longest, s.limit(p))
	}
	c.since(k.since, longest)
	c.Number(int64(len(k.samples)))
	for _, m := range k.samples {
		far(m.low)
		far(m.high)
		c.since(m.at, s.cfg.TTL+s.cfg.Slack)
	}
}

func (ps *peers) canon(s *State, c *Canon) {
	all := ps.sorted()
	slices.SortFunc(all, func(a, b *peer) int { return c.Order(a.id) - c.Order(b.id) })
	c.Number(int64(len(all)))
	full := len(all)+1 >= s.cfg.MaxPeers || len(ps.dead)+1 >= s.cfg.MaxPeers
	for _, p := range all {
		p.canon(s, c)
		if full {
			c.since(p.used, never/4)
		}
	}
	dead := slices.Clone(ps.deadOrder)
	if !full {
		slices.SortFunc(dead, func(a, b NodeID) int { return c.Order(a) - c.Order(b) })
	}
	for _, ids := range [2][]NodeID{dead, ps.unread} {
		c.Number(int64(len(ids)))
		for _, id := range ids {
			c.node(id)
		}
	}
}

func (p *peer) canon(s *State, c *Canon) {
	limit := s.limit(p)
	c.node(p.id)
	c.flags(p.known, p.seen.valid, p.seen.absent, p.suspect, p.ignored, p.bad, p.lost)
	c.Buf = append(c.Buf, byte(p.follow))
	if p.known {
		c.flags(p.lease.Released, p.lease.Addr != "", p.lease.Protocol == s.cfg.Protocol)
		c.Number(int64(p.lease.TTL))
	}
	if p.seen.valid {
		c.version(p.seen.version)
		c.since(p.seen.since, limit)
		longest := s.cfg.TTL + 1
		if p.aged > 0 {
			longest = limit + 1
		}
		c.since(p.checked, longest)
	}
	c.Number(int64(p.unanswered))
	if p.unanswered > 0 || p.ignored {
		c.since(p.quiet, s.cfg.Renew+1)
	}
	c.Number(int64(min(max(0, p.aged), limit)))
	c.op(p.op)
	c.op(p.probe)
	if p.op != 0 {
		c.since(p.opFrom, limit)
		c.Number(int64(min(max(0, p.opFrom-p.seen.since), limit)) * int64(count(p.seen.valid)))
		c.until(p.opEnds)
	}
	if p.probe != 0 {
		c.until(p.probeBy)
	}
	if p.suspect || p.probe != 0 || !p.known || p.lease.Addr == "" { // else the next probe sets it
		c.until(p.probeAt)
	}
	c.until(p.readAt)
	c.until(p.wake)
	names := slices.Sorted(maps.Keys(p.cells))
	c.Number(int64(len(names)))
	for _, name := range names {
		c.cell(name)
	}
}

func (cs *cells) canon(s *State, c *Canon) {
	names := slices.Sorted(maps.Keys(cs.byName))
	c.Number(int64(len(names)))
	for _, name := range names {
		cs.byName[name].canon(s, c)
	}
	if len(names) < 2 { // the order of a list is settled
		return
	}
	for _, l := range [3]*cellList{&cs.queue, &cs.idle, &cs.routes} {
		for x := l.head; x != nil; x = x.next {
			c.cell(x.name)
		}
		c.Number(0)
	}
}

func (x *cell) canon(s *State, c *Canon) {
	c.cell(x.name)
	c.Buf = append(c.Buf, byte(x.phase))
	c.flags(x.evict != "", x.held)
	c.Number(int64(x.running))
	c.node(x.owner)
	// What will be read before it is used again does not count.
	unread := x.phase == cellRemote || x.phase == cellStuck || x.phase == cellQueued ||
		x.phase == cellReading && x.work.claim == 0
	if !unread {
		c.epoch(x.name, x.epoch)
		c.version(x.version)
	}
	if x.in == &s.cells.idle && s.cfg.IdleAfter > 0 {
		c.since(x.lastUsed, s.cfg.IdleAfter)
	}
	c.flags(x.work != nil)
	if x.work != nil {
		x.work.canon(x.name, s, c)
	}
}

func (w *work) canon(name CellName, s *State, c *Canon) {
	c.op(w.op)
	c.until(w.wake)
	c.flags(w.claim != 0, w.claimAgain, w.takeover != nil, w.readBack)
	if w.claim != 0 {
		c.epoch(name, w.claim)
	}
	c.Number(int64(min(w.reconciles, MaxAcquireReconciles+1)))
	c.Number(s.doublings(w.pauses))
	c.Number(int64(len(w.waiters)))
	for _, id := range w.waiters {
		c.Number(int64(id))
	}
}

func (rs *requests) canon(c *Canon) {
	c.Number(int64(len(rs.byID)))
	for _, r := range rs.sorted() {
		c.Number(int64(r.id))
		c.cell(r.cell)
		c.Buf = append(c.Buf, byte(r.state))
		c.flags(r.own, r.try, r.forwarded, r.answered, r.granted, r.failed, r.reconnect, r.refused)
		c.node(r.node)
		c.until(r.deadline)
		c.until(r.patience)
		c.until(r.wake)
	}
}
