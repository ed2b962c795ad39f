package trace

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// script drives a State with answers to what it asked for last.
type script struct {
	t     *testing.T
	s     *core.State
	r     *Recorder
	now   core.Time
	asked map[string]core.OpID // by the kind of effect
}

func (x *script) at(ms int, ev core.Event) {
	x.now = core.Time(ms) * core.Time(time.Millisecond)
	effects := x.s.Step(x.now, ev)
	x.r.Record(x.s, x.now, ev, effects)
	for _, e := range effects {
		switch e := e.(type) {
		case core.Mint:
			x.asked["mint"] = e.Op
		case core.WriteLease:
			x.asked["lease"] = e.Op
		case core.ReadLease:
			x.asked["peer"] = e.Op
		case core.ListLeases:
			x.asked["list"] = e.Op
		case core.ReadOwner:
			x.asked["owner"] = e.Op
		case core.WriteOwner:
			x.asked["write"] = e.Op
		case core.Activate:
			x.asked["app"] = e.Op
		case core.Deactivate:
			x.asked["app"] = e.Op
		case core.Probe:
			x.asked["probe"] = e.Op
		}
	}
}

const (
	alice = core.NodeID("alice-00112233445566aa")
	bob   = core.NodeID("bob-8899aabbccddeeff")
)

func (x *script) leaseApplied(ms int, v core.Version) {
	x.at(ms, core.LeaseWritten{Op: x.asked["lease"], Outcome: core.Applied, Version: v})
}

func (x *script) peerLease(ms int) {
	x.at(ms, core.LeaseRead{Op: x.asked["peer"], Node: alice, Outcome: core.Found, Version: `"a9"`,
		Lease: core.Lease{Node: alice, Generation: "g", Seq: 9, TTL: core.Time(2 * time.Second), Contact: core.Contact{Addr: "10.0.0.1:7000", Key: "ab", Protocol: 1}}})
}

func (x *script) ownedByAlice(ms int) {
	x.at(ms, core.OwnerRead{Op: x.asked["owner"], Cell: "room", Outcome: core.Found, Owner: core.Owner{Node: alice, Epoch: 2}, Version: `"r2"`})
}

func (x *script) arrive(ms int, id core.RequestID) {
	x.at(ms, core.Arrive{ID: id, Cell: "room", Deadline: core.Time(ms)*core.Time(time.Millisecond) + core.Time(30*time.Second)})
}

// takeover is the story of the golden files: alice dies, bob finds out, takes her
// cell over, serves it, and drains.
func takeover(t *testing.T, path string) {
	ms := core.Time(time.Millisecond)
	cfg := core.Config{
		TTL: 2000 * ms, Slack: 100 * ms, Renew: 666 * ms, LeaseDeadline: 333 * ms, RetryStep: 20 * ms, OpDeadline: 1000 * ms,
		DialDeadline: 333 * ms, ActivateDeadline: 30000 * ms, DeactivateDeadline: 10000 * ms, DrainDeadline: 25000 * ms,
		Rounding: 1000 * ms, Allowance: 1000 * ms, MaxActivations: 4, MaxReleases: 4, MaxQueue: 50, MaxRoutes: 20, MaxPeers: 5, Protocol: 1,
	}
	s, err := core.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	wall := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r, err := Open(Options{Path: path, Name: "bob", Version: "v1.0.0", Wall: func() time.Time { return wall }, session: "SESSION"})
	if err != nil {
		t.Fatal(err)
	}
	x := &script{t: t, s: s, r: r, asked: map[string]core.OpID{}}
	x.at(1000, core.Start{})
	x.at(1001, core.Minted{Op: x.asked["mint"], Node: bob, Generation: "h", Contact: core.Contact{Addr: "10.0.0.2:7000", Key: "cd", Protocol: 1}})
	x.leaseApplied(1010, `"b1"`)
	x.at(1012, core.LeasesListed{Op: x.asked["list"], Nodes: []core.NodeID{alice, bob}})
	x.peerLease(1015)
	x.arrive(1100, 1)
	x.ownedByAlice(1110)
	x.at(1111, core.ForwardFailed{ID: 1, How: core.NotConnected})
	x.peerLease(1120)
	x.at(1130, core.Probed{Op: x.asked["probe"], Node: alice})
	x.ownedByAlice(1140)
	x.at(1141, core.Done{ID: 1})
	for i, v := range []core.Version{`"b2"`, `"b3"`, `"b4"`} {
		due := 1001 + 666*(i+1)
		x.at(due, core.Tick{})
		x.leaseApplied(due+9, v)
	}
	x.at(3116, core.Tick{})
	x.peerLease(3125)
	x.arrive(3200, 2)
	x.ownedByAlice(3210)
	x.at(3230, core.OwnerWritten{Op: x.asked["write"], Cell: "room", Outcome: core.Applied, Version: `"r3"`})
	x.at(3240, core.Activated{Op: x.asked["app"], Cell: "room", OK: true})
	x.at(3250, core.Ready{ID: 2})
	x.at(3251, core.Done{ID: 2})
	x.at(3300, core.Drain{})
	x.at(3310, core.Deactivated{Op: x.asked["app"], Cell: "room"})
	x.at(3320, core.OwnerWritten{Op: x.asked["write"], Cell: "room", Outcome: core.Applied, Version: `"r4"`})
	x.leaseApplied(3330, `"b5"`)
	closeIt(t, r)
}

// TestGolden fails when the format of a trace, or of what is told of it, changes.
// Format must change with the former.
func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	takeover(t, path)
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "takeover.jsonl", got)

	n, p := narrated(t, filepath.Join("testdata", "takeover.jsonl"))
	if p.Difference != nil || p.Node != bob {
		t.Errorf("%+v\n%v", p.Result, p.Difference)
	}
	for name, facts := range map[string][]Fact{
		"takeover-room.txt": OfCell(n.Facts(), "room"), "takeover-node.txt": OfNode(n.Facts()),
	} {
		var story bytes.Buffer
		if err := WriteStory(&story, []string{"bob"}, Collapse(facts)); err != nil {
			t.Fatal(err)
		}
		golden(t, name, story.Bytes())
	}
	var page bytes.Buffer
	source := Source{Path: "takeover.jsonl", Name: "bob", Node: bob, Summary: "identical", Facts: n.Facts()}
	if err := Draw("room", "room", []Source{source}, Collapse(OfCell(n.Facts(), "room"))).WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	golden(t, "takeover.html", page.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Fatalf("%s, line %d (go test -rewrite writes it anew)\ngot  %s\nwant %s", name, i+1, g[i], w[i])
			}
		}
		t.Fatalf("%s has %d lines, want %d", name, len(g), len(w))
	}
}

func narrated(t *testing.T, path string) (*Narrator, *Replayed) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var n *Narrator
	p, err := Replay(f, nil, func(h Header) func(Step) bool {
		n = NewNarrator(0, h)
		return func(s Step) bool { n.See(s); return true }
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, p
}

// Every kind of event and effect is told somehow, whatever comes, and what the
// diagram says is as well-formed as XML.
func TestTellsAnything(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		n, p := narrated(t, recorded(t, seed, 3000, Options{}))
		if p.Difference != nil || len(n.Facts()) < 1000 {
			t.Fatalf("%d facts of %d decisions: %v", len(n.Facts()), p.Decisions, p.Difference)
		}
		source := Source{Path: "p<&>", Name: "n1", Node: p.Node, Facts: n.Facts()}
		for _, cell := range append(Cells(n.Facts()), "") {
			facts := Overview(n.Facts())
			if cell != "" {
				facts = OfCell(n.Facts(), cell)
			}
			d := Draw("a <title>", cell, []Source{source}, Collapse(facts))
			checkXML(t, d.svg())
			checkXML(t, d.heads())
		}
	}
}
