package core

// State is one node's deciding state. It is not safe for concurrent use: its caller
// takes one event at a time and carries out, or starts, the effects of a Step
// before the next one.
type State struct {
	cfg    Config
	now    Time
	lastOp OpID
	out    out

	lease  lease
	clock  storeClock
	peers  peers
	cells  cells
	reqs   requests
	drain  drain
	timers timers
}

// out collects the effects of one step, in order.
type out struct{ effects []Effect }

func (o *out) add(e Effect) { o.effects = append(o.effects, e) }

// New returns a State that has not started; its first event is [Start].
func New(cfg Config) (*State, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &State{cfg: cfg}
	s.lease.wake, s.lease.end, s.drain.cut, s.drain.ends = never, never, never, never
	s.peers.init()
	s.cells.init()
	s.reqs.byID = map[RequestID]*request{}
	return s, nil
}

// Step takes one event at an instant and returns what to carry out, in order.
// The slice is valid until the next Step. now is sampled when the event is
// taken, not when it happened: authority is judged by it. An event that waited in
// a queue while authority ended must find it ended. A now before that of an
// earlier Step counts as that one.
//
// Each Step does, in this order: what the time asks for, the event, what has
// become possible by either. When the session is over it does nothing but refuse
// requests.
func (s *State) Step(now Time, ev Event) []Effect {
	s.now = max(s.now, now)
	clear(s.out.effects)
	s.out.effects = s.out.effects[:0]
	if s.lease.phase != leaseOver {
		s.advance(&s.out)
	}
	if s.lease.phase == leaseOver {
		s.refuse(ev, &s.out)
		return s.out.effects
	}
	ev.apply(s, &s.out)
	if s.lease.phase != leaseOver {
		s.settle(&s.out)
	}
	s.timers.trim(s)
	return s.out.effects
}

// refuse answers a request that comes when all is over (L1), ahead of the End
// if it came together with that: nobody listens to what follows an End.
func (s *State) refuse(ev Event, o *out) {
	a, is := ev.(Arrive)
	if !is {
		return
	}
	o.add(Fail{ID: a.ID, Failure: Failure{Code: CodeNodeUnavailable, Detail: "this node is over"}})
	if n := len(o.effects); n > 1 {
		o.effects[n-1], o.effects[n-2] = o.effects[n-2], o.effects[n-1]
	}
}

// advance does what the time asks for, the end of authority first: whatever
// the event says, it is judged as of now. An entry of timers whose owner waits for
// another time by now is passed over.
func (s *State) advance(o *out) {
	s.leaseDue(o)
	for s.lease.phase != leaseOver && s.timers.due(s.now) {
		t := s.timers.pop()
		switch t.kind {
		case timerCell:
			if c := s.cells.byName[CellName(t.name)]; c != nil && c.work != nil && c.work.wake == t.at {
				s.cellDue(c, o)
			}
		case timerPeer:
			if p := s.peers.byID[NodeID(t.name)]; p != nil && p.wake == t.at {
				s.peerDue(p, o)
			}
		case timerRequest:
			if r := s.reqs.byID[t.id]; r != nil && r.wake == t.at {
				s.requestDue(r, o)
			}
		}
	}
}

// settle starts what has become possible: activations, evictions, the end of a
// drain. It runs after every event, so that none needs to know for what it made
// room. Evictions come before the drain, which goes on only once nothing is owned.
func (s *State) settle(o *out) {
	s.grantsDue(o)
	s.admit(o)
	s.evictDue(o)
	s.survey(o)
	s.drainDue(o)
}

// Next is the instant of the next Step that is needed even if nothing happens;
// [Tick] serves. It is far in the future if there is none. A Step at that instant
// moves it on, so a caller that sleeps until Next does not spin.
func (s *State) Next() Time {
	if s.lease.phase == leaseOver {
		return never
	}
	at := min(s.lease.due(s), s.timers.next())
	if s.lease.phase == leaseHeld {
		at = min(at, s.drain.cut, s.drain.ends)
	}
	// The head of the idle list is the first to be due, if it may leave then.
	if c := s.cells.idle.head; c != nil && s.cells.leaving < s.cfg.MaxReleases && s.cfg.IdleAfter > 0 {
		at = min(at, c.lastUsed+s.cfg.IdleAfter)
	}
	return at
}

// op numbers one asynchronous effect.
func (s *State) op() OpID {
	s.lastOp++
	return s.lastOp
}

func (Tick) apply(*State, *out) {}

// Config is the settings that the State was made with.
func (s *State) Config() Config { return s.cfg }

// Dead is why a node was judged dead; ok is false if it was not, or if that was
// forgotten.
func (s *State) Dead(id NodeID) (why Evidence, ok bool) {
	why, ok = s.peers.dead[id]
	return why, ok
}

// Node is this node's id; empty before one was minted.
func (s *State) Node() NodeID { return s.lease.node }

// Held reports whether this node holds its lease, as of the last Step. It is
// for display: what may be done is in the effects.
func (s *State) Held() bool { return s.lease.phase == leaseHeld || s.lease.phase == leaseLeaving }

// AuthorityEnds is when this node's authority ends unless it is renewed.
func (s *State) AuthorityEnds() Time { return s.lease.end }

// Draining reports whether a drain has begun.
func (s *State) Draining() bool { return s.drain.on }

// Counts are sizes of the state's tables.
type Counts struct {
	// Cells: Owned are activating or served, Leaving are being deactivated or
	// released, Resolving take up places among MaxActivations, Routes are those
	// known to be elsewhere. Queued and stuck ones are in none of them.
	Owned, Leaving, Resolving, Routes int
	// Waiting is how many of the Requests wait for an owner. Requests includes
	// those whose answer has begun or which were failed, until they are done.
	Waiting, Requests int
	// Peers are observed, Dead are remembered as such.
	Peers, Dead int
}

// Counts returns them as of the last Step.
func (s *State) Counts() Counts {
	return Counts{
		Owned: s.cells.owned, Leaving: s.cells.leaving, Resolving: s.cells.slots,
		Routes: s.cells.routes.len, Waiting: s.reqs.waiting, Requests: len(s.reqs.byID),
		Peers: len(s.peers.byID), Dead: len(s.peers.dead),
	}
}

// CellView is what a node knows of a cell without asking anybody. Of a cell that is
// not Local it may be long out of date: for display only.
type CellView struct {
	Phase string
	// Owner is empty while it is not known, or nobody is.
	Owner NodeID
	Epoch Epoch
	// Local: this node owns it, or activates it.
	Local bool
}

// Cell returns what is known of a cell; ok is false if nothing is.
func (s *State) Cell(name CellName) (v CellView, ok bool) {
	c := s.cells.byName[name]
	if c == nil {
		return CellView{}, false
	}
	v = CellView{Phase: c.phase.String(), Owner: c.owner, Epoch: c.epoch}
	if c.phase.owned() {
		v.Owner, v.Local = s.lease.node, true
	}
	return v, true
}
