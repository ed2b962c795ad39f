package core_test

import (
	"fmt"
	"testing"

	"github.com/tenure-go/tenure/core"
)

// L4: no node fences while half a TTL of its lease traffic fails or hangs, for
// a TTL of at least 4 s and a round trip of at most TTL/100.
func TestLeaseSurvivesHalfATTL(t *testing.T) {
	for _, mode := range []string{"fails", "hangs", "applied, answer lost", "contended"} {
		for _, ttl := range []core.Time{4000, 10000, 60000} {
			for start := core.Time(0); start < 2*ttl/3; start += ttl / 300 {
				l := newLeaseRig(ttl, mode, 2*ttl+start)
				if end := l.run(6 * ttl); end != "" {
					t.Fatalf("TTL %d, traffic %s from %d on: %s", ttl, mode, l.from, end)
				}
			}
		}
	}
}

// leaseRig is one node and a store of one record, which is out for half a TTL.
type leaseRig struct {
	s    *core.State
	mode string
	from core.Time
	ttl  core.Time
	now  core.Time
	todo []timed // in order

	record  core.Lease
	version core.Version
	ended   string
}

type timed struct {
	at core.Time
	do func()
}

func newLeaseRig(ttl core.Time, mode string, from core.Time) *leaseRig {
	cfg := storyConfig()
	cfg.TTL, cfg.Slack, cfg.Renew, cfg.LeaseDeadline, cfg.RetryStep = ttl, ttl/20, ttl/3, ttl/6, 20
	s, err := core.New(cfg)
	if err != nil {
		panic(err)
	}
	l := &leaseRig{s: s, mode: mode, from: from, ttl: ttl}
	l.step(core.Start{})
	return l
}

func (l *leaseRig) run(until core.Time) string {
	for l.now < until && l.ended == "" {
		if next := l.s.Next(); len(l.todo) == 0 || next < l.todo[0].at {
			l.now = next
			l.step(core.Tick{})
			continue
		}
		first := l.todo[0]
		l.todo = l.todo[1:]
		l.now = first.at
		first.do()
	}
	return l.ended
}

func (l *leaseRig) step(ev core.Event) {
	for _, e := range l.s.Step(l.now, ev) {
		switch e := e.(type) {
		case core.Mint:
			l.step(core.Minted{Op: e.Op, Node: "me", Generation: "g"})
			return
		case core.WriteLease:
			l.write(e)
		case core.ReadLease:
			l.answer(func() core.Event {
				return core.LeaseRead{Op: e.Op, Node: "me", Outcome: core.Found, Lease: l.record, Version: l.version}
			}, core.LeaseRead{Op: e.Op, Node: "me"})
		case core.End:
			l.ended = string(e.Reason)
		}
	}
}

func (l *leaseRig) out() bool { return l.now >= l.from && l.now < l.from+l.ttl/2 }

func (l *leaseRig) write(e core.WriteLease) {
	fate := core.LeaseWritten{Op: e.Op}
	if l.mode == "contended" {
		fate.Outcome = core.Contended
	}
	apply := func() core.Event {
		if l.version != e.Expect {
			return core.LeaseWritten{Op: e.Op, Outcome: core.Rejected}
		}
		l.record, l.version = e.Lease, core.Version(fmt.Sprint(e.Lease.Seq))
		return core.LeaseWritten{Op: e.Op, Outcome: core.Applied, Version: l.version}
	}
	if l.mode == "applied, answer lost" && l.out() {
		apply()
	}
	l.answer(apply, fate)
}

// answer brings what the store says after half a round trip, or, while it is
// out, a failure or nothing at all.
func (l *leaseRig) answer(ask func() core.Event, fails core.Event) {
	half := l.ttl / 200
	out := l.out()
	l.after(half, func() {
		switch {
		case !out && !l.out():
			ev := ask()
			l.after(half, func() {
				if !l.out() {
					l.step(ev)
				}
			})
		case l.mode == "fails" || l.mode == "contended":
			l.after(half, func() { l.step(fails) })
		}
	})
}

func (l *leaseRig) after(d core.Time, do func()) {
	at := l.now + d
	i := len(l.todo)
	for i > 0 && l.todo[i-1].at > at {
		i--
	}
	l.todo = append(l.todo[:i], append([]timed{{at, do}}, l.todo[i:]...)...)
}
