package peer

import (
	"context"
	"sync"
	"time"

	"github.com/tenure-go/tenure/core"
)

const (
	knownPeers   = 4096
	unknownPeers = 1024
	unknownFor   = time.Second
	maxFlights   = 256 // look-ups under way or waiting
	flightSlots  = 8   // look-ups under way
	flightBurst  = 64
	maxNodeID    = 255 // bytes
)

// roster knows which key a node id has. A node id has one key for ever, so what
// was found stays; what was not found is asked for again after a second. Look-ups
// are shared, few at a time, and limited in rate, however many strangers ask.
type roster struct {
	lookup  func(context.Context, core.NodeID) (core.Contact, error)
	timeout time.Duration // of a look-up, with the wait for its turn
	every   time.Duration // between look-ups, beyond a burst
	ctx     context.Context
	slots   chan struct{}

	mu      sync.Mutex
	known   *lru[core.NodeID, string]
	unknown *lru[core.NodeID, time.Time] // until when
	flights map[core.NodeID]*flight
	// turn is when the next look-up would begin if none came in a burst.
	turn time.Time
}

// flight is one shared look-up.
type flight struct {
	done chan struct{} // closed when key is set
	key  string        // empty if no lease publishes one
	late bool          // it got no turn
}

func newRoster(ctx context.Context, o ServerOptions) *roster {
	return &roster{
		lookup:  o.Lookup,
		timeout: o.LookupTimeout,
		every:   time.Second / time.Duration(o.LookupsPerSecond),
		ctx:     ctx,
		slots:   make(chan struct{}, flightSlots),
		known:   newLRU[core.NodeID, string](knownPeers),
		unknown: newLRU[core.NodeID, time.Time](unknownPeers),
		flights: make(map[core.NodeID]*flight),
	}
}

// check reports why a connection with this key may not speak for the node;
// empty if it may.
func (r *roster) check(ctx context.Context, node core.NodeID, key string) Refusal {
	if !plausible(node) {
		return UnknownPeer
	}
	found, f, why := r.find(node)
	if f != nil {
		select {
		case <-f.done:
			found = f.key
		case <-ctx.Done():
			return PeerBusy
		}
		if f.late {
			return PeerBusy
		}
	}
	if why == "" && !sameKey(found, key) {
		why = UnknownPeer
	}
	return why
}

// find returns the node's key, or the look-up to wait for, or a refusal.
func (r *roster) find(node core.NodeID) (key string, f *flight, why Refusal) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if key, ok := r.known.get(node); ok {
		return key, nil, ""
	}
	if until, ok := r.unknown.get(node); ok && now.Before(until) {
		return "", nil, UnknownPeer
	}
	if f := r.flights[node]; f != nil {
		return "", f, ""
	}
	wait, ok := r.reserve(now)
	if !ok {
		return "", nil, PeerBusy
	}
	f = &flight{done: make(chan struct{})}
	r.flights[node] = f
	go r.fly(node, f, wait)
	return "", f, ""
}

// reserve takes a turn and reports how long to wait for it.
func (r *roster) reserve(now time.Time) (wait time.Duration, ok bool) {
	turn := r.turn
	if earliest := now.Add(-flightBurst * r.every); turn.Before(earliest) {
		turn = earliest
	}
	turn = turn.Add(r.every)
	wait = max(0, turn.Sub(now))
	if wait >= r.timeout || len(r.flights) >= maxFlights {
		return 0, false
	}
	r.turn = turn
	return wait, true
}

func (r *roster) fly(node core.NodeID, f *flight, wait time.Duration) {
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	key, ok := r.fetch(ctx, node, wait)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flights, node)
	f.key, f.late = key, !ok
	close(f.done)
	switch {
	case key != "":
		r.known.put(node, key)
		r.unknown.remove(node)
	case ok:
		r.unknown.put(node, time.Now().Add(unknownFor))
	}
}

// fetch looks the node's key up when its turn has come. A failure counts as
// "no key", for a second; ok is false if the turn did not come.
func (r *roster) fetch(ctx context.Context, node core.NodeID, wait time.Duration) (key string, ok bool) {
	turn := time.NewTimer(wait)
	defer turn.Stop()
	select {
	case <-turn.C:
	case <-ctx.Done():
		return "", false
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return "", false
	}
	contact, err := r.lookup(ctx, node)
	if err != nil {
		return "", true
	}
	return contact.Key, true
}

// learn takes over what a lease was read to publish.
func (r *roster) learn(node core.NodeID, key string) {
	if key == "" || !plausible(node) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known.put(node, key)
	r.unknown.remove(node)
}

// plausible bounds what a stranger can make us look up: a node id becomes part
// of an object's key.
func plausible(node core.NodeID) bool {
	if node == "" || len(node) > maxNodeID || node[0] == '.' {
		return false
	}
	for i := range len(node) {
		b := node[i]
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case b == '_', b == '-', b == '.':
		default:
			return false
		}
	}
	return true
}
