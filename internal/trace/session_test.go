package trace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tenure-go/tenure/core"
)

// session drives a State with random answers to what it asks for: a store, peers
// and an application without any plan. It calls record after each step.
type session struct {
	s      *core.State
	rng    *rand.Rand
	now    core.Time
	todo   []core.Effect
	record func(s *core.State, now core.Time, ev core.Event, effects []core.Effect)

	requests core.RequestID
	open     []core.RequestID
	version  int
	owners   map[core.CellName]core.OwnerRead
	lease    core.LeaseRead
}

var testConfig = core.Config{
	TTL: 10000, Slack: 500, Renew: 3333, LeaseDeadline: 1666, RetryStep: 100, OpDeadline: 5000,
	DialDeadline: 1666, ActivateDeadline: 30000, DeactivateDeadline: 10000, DrainDeadline: 25000,
	Allowance: 1000, IdleAfter: 60000, FailoverWait: 20000,
	MaxCells: 8, MaxActivations: 4, MaxReleases: 4, MaxQueue: 50, MaxRoutes: 20, MaxPeers: 5, Protocol: 1,
}

func newSession(t testing.TB, seed uint64, record func(*core.State, core.Time, core.Event, []core.Effect)) *session {
	t.Helper()
	state, err := core.New(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	x := &session{s: state, rng: rand.New(rand.NewPCG(seed, 1)), now: 1000, record: record, owners: map[core.CellName]core.OwnerRead{}}
	x.step(core.Start{})
	return x
}

func (x *session) step(ev core.Event) {
	effects := x.s.Step(x.now, ev)
	x.record(x.s, x.now, ev, effects)
	x.todo = append(x.todo, slices.Clone(effects)...)
}

// run takes n more steps.
func (x *session) run(n int) {
	for range n {
		switch k := x.rng.IntN(10); {
		case k < 6 && len(x.todo) > 0:
			i := x.rng.IntN(len(x.todo))
			if lease := slices.IndexFunc(x.todo, ownLease); lease >= 0 && x.rng.IntN(20) > 0 {
				i = lease // else the session is soon over
			}
			e := x.todo[i]
			x.todo = slices.Delete(x.todo, i, i+1)
			x.now += core.Time(x.rng.IntN(20))
			if ev := x.answer(e); ev != nil {
				x.step(ev)
			}
		case k < 8:
			x.requests++
			x.open = append(x.open, x.requests)
			x.step(core.Arrive{ID: x.requests, Cell: x.cell(), Deadline: x.now + 30000,
				Forwarded: x.odds(5), Own: x.odds(8), Try: x.odds(2)})
		case k == 8:
			x.now = max(x.now, min(x.s.Next(), x.now+1000))
			x.step(core.Tick{})
		case len(x.open) > 0:
			i := x.rng.IntN(len(x.open))
			x.step(core.Done{ID: x.open[i]})
			x.open = slices.Delete(x.open, i, i+1)
		}
	}
}

func ownLease(e core.Effect) bool {
	switch e := e.(type) {
	case core.WriteLease:
		return true
	case core.ReadLease:
		return e.Own
	}
	return false
}

func (x *session) odds(n int) bool     { return x.rng.IntN(n) == 0 }
func (x *session) cell() core.CellName { return core.CellName(fmt.Sprintf("room-%d", x.rng.IntN(12))) }
func (x *session) peer() core.NodeID   { return core.NodeID(fmt.Sprintf("peer-%d", x.rng.IntN(4))) }

func (x *session) next() core.Version {
	x.version++
	return core.Version(fmt.Sprintf(`"v%d"`, x.version))
}

func (x *session) outcome() core.WriteOutcome {
	if x.rng.IntN(10) > 0 {
		return core.Applied
	}
	return core.WriteOutcome(x.rng.IntN(5))
}

// answer is what may come of an effect.
func (x *session) answer(e core.Effect) core.Event {
	switch e := e.(type) {
	case core.Mint:
		return core.Minted{Op: e.Op, Node: core.NodeID(fmt.Sprintf("me-%d", e.Op)), Generation: "g", Contact: core.Contact{Addr: "a:1", Protocol: 1}}
	case core.WriteLease:
		x.lease = core.LeaseRead{Outcome: core.Found, Lease: e.Lease, Version: x.next()}
		return core.LeaseWritten{Op: e.Op, Outcome: core.Applied, Version: x.lease.Version, Stamps: core.Stamps{Date: x.now + 77, HasDate: true, Modified: x.now + 77, HasModified: true}}
	case core.ReadLease:
		if e.Own {
			r := x.lease
			r.Op, r.Node = e.Op, e.Node
			return r
		}
		if x.odds(3) {
			return core.LeaseRead{Op: e.Op, Node: e.Node, Outcome: core.Absent}
		}
		return core.LeaseRead{Op: e.Op, Node: e.Node, Outcome: core.Found, Version: "lease", Lease: core.Lease{Node: e.Node, Generation: "h", Seq: 1, TTL: 10000, Contact: core.Contact{Addr: "b:1", Protocol: 1}}}
	case core.ListLeases:
		return core.LeasesListed{Op: e.Op, Nodes: []core.NodeID{"peer-0", "peer-1"}}
	case core.ReadOwner:
		r, known := x.owners[e.Cell]
		if !known && x.odds(3) {
			r = core.OwnerRead{Outcome: core.Found, Owner: core.Owner{Node: x.peer(), Epoch: 3}, Version: x.next()}
		} else if !known {
			r = core.OwnerRead{Outcome: core.Absent}
		}
		r.Op, r.Cell = e.Op, e.Cell
		return r
	case core.WriteOwner:
		w := core.OwnerWritten{Op: e.Op, Cell: e.Cell, Outcome: x.outcome()}
		if w.Outcome == core.Applied {
			w.Version = x.next()
			x.owners[e.Cell] = core.OwnerRead{Outcome: core.Found, Owner: e.Owner, Version: w.Version}
		}
		return w
	case core.Activate:
		return core.Activated{Op: e.Op, Cell: e.Cell, OK: !x.odds(10), Detail: ""}
	case core.Deactivate:
		return core.Deactivated{Op: e.Op, Cell: e.Cell}
	case core.Probe:
		return core.Probed{Op: e.Op, Node: e.Node, OK: x.odds(2)}
	case core.Dispatch:
		return core.Ready{ID: e.ID}
	case core.Forward:
		if x.odds(2) {
			return core.ForwardFailed{ID: e.ID, How: core.ForwardFailure(x.rng.IntN(4))}
		}
		return core.Ready{ID: e.ID}
	}
	return nil
}
