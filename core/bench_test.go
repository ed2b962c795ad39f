package core_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/tenure-go/tenure/core"
)

// heldState is a node that holds its lease for as long as a benchmark runs.
func heldState(b *testing.B) *core.State {
	cfg := storyConfig()
	cfg.TTL, cfg.Renew, cfg.IdleAfter = 1<<50, 1<<49, 0
	s, err := core.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	s.Step(1, core.Start{})
	s.Step(2, core.Minted{Op: 1, Node: "node-0123456789abcdef", Generation: "g", Contact: core.Contact{Addr: "a:1", Protocol: 1}})
	s.Step(3, core.LeaseWritten{Op: 2, Outcome: core.Applied, Version: "l1"})
	return s
}

// acquire takes a cell through its whole cold path, with one request.
func acquire(s *core.State, now core.Time, id core.RequestID, cell core.CellName, v core.Version) {
	read := s.Step(now, core.Arrive{ID: id, Cell: cell, Deadline: now + 30000})[0].(core.ReadOwner)
	claim := s.Step(now, core.OwnerRead{Op: read.Op, Cell: cell, Outcome: core.Absent})[0].(core.WriteOwner)
	hook := s.Step(now, core.OwnerWritten{Op: claim.Op, Cell: cell, Outcome: core.Applied, Version: v})[0].(core.Activate)
	s.Step(now, core.Activated{Op: hook.Op, Cell: cell, OK: true})
	s.Step(now, core.Ready{ID: id})
	s.Step(now, core.Done{ID: id})
}

func BenchmarkWarmRequest(b *testing.B) {
	s := heldState(b)
	acquire(s, 10, 1, "room", "v1")
	now := core.Time(100)
	b.ReportAllocs()
	for b.Loop() {
		now++
		id := core.RequestID(now)
		s.Step(now, core.Arrive{ID: id, Cell: "room", Deadline: now + 30000})
		s.Step(now, core.Ready{ID: id})
		s.Step(now, core.Done{ID: id})
	}
}

func BenchmarkColdClaim(b *testing.B) {
	s := heldState(b)
	now := core.Time(100)
	b.ReportAllocs()
	for b.Loop() {
		now++
		acquire(s, now, core.RequestID(now), core.CellName(fmt.Sprintf("room-%012d", now)), "v1")
	}
}

// BenchmarkIdleCell reports the memory of one owned idle cell, among a million:
// with its name of 20 bytes and its version of 34, an S3 ETag.
func BenchmarkIdleCell(b *testing.B) {
	const cells = 1_000_000
	for b.Loop() {
		s := heldState(b)
		before := heapBytes()
		for i := range cells {
			now := core.Time(100 + i)
			name := core.CellName(fmt.Sprintf("tenant:room-%08d", i))
			acquire(s, now, core.RequestID(now), name, core.Version(fmt.Sprintf(`"%032x"`, i)))
		}
		b.ReportMetric(float64(heapBytes()-before)/cells, "B/cell")
		runtime.KeepAlive(s)
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
