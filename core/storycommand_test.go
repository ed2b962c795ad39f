package core_test

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/tenure-go/tenure/core"
)

type command func(*story, *datadriven.TestData)

var storyCommands = map[string]command{
	"new":   (*story).doNew,
	"start": (*story).doStart,
	"kill":  func(st *story, _ *datadriven.TestData) { st.killed = true },
	"lease": func(st *story, d *datadriven.TestData) { st.manual = word(d, 0) == "manual" },
	"until": func(st *story, d *datadriven.TestData) { st.until(storyTime(d, "t")) },
	"show": func(st *story, d *datadriven.TestData) {
		if name := word(d, 0); name != "" {
			st.showCell(core.CellName(name))
			return
		}
		st.show()
	},
	"begin": func(st *story, _ *datadriven.TestData) { st.step(core.Start{}) },
	"minted": func(st *story, d *datadriven.TestData) {
		st.step(core.Minted{Op: st.op(d, "mint", ""), Node: core.NodeID(word(d, 0)), Generation: "g", Contact: contact(word(d, 0))})
	},
	"lease-written": func(st *story, d *datadriven.TestData) {
		ev := core.LeaseWritten{Op: st.op(d, "write lease", ""), Outcome: writeOutcomes[word(d, 0)]}
		if ev.Outcome == core.Applied {
			ev = st.leaseApplied(ev.Op, d)
		}
		st.step(ev)
	},
	"own-lease":  (*story).doOwnLease,
	"lease-read": (*story).doLeaseRead,
	"listed":     (*story).doListed,
	"owner-read": (*story).doOwnerRead,
	"owner-written": func(st *story, d *datadriven.TestData) {
		cell := word(d, 0)
		ev := core.OwnerWritten{Op: st.op(d, "write owner", cell), Cell: core.CellName(cell), Outcome: writeOutcomes[word(d, 1)]}
		ev.Version = core.Version(storyArg(d, "v", ""))
		st.step(ev)
	},
	"activated": func(st *story, d *datadriven.TestData) {
		cell := word(d, 0)
		st.step(core.Activated{Op: st.op(d, "activate", cell), Cell: core.CellName(cell), OK: word(d, 1) != "failed", Detail: "the hook answered 500"})
	},
	"deactivated": func(st *story, d *datadriven.TestData) {
		st.step(core.Deactivated{Op: st.op(d, "deactivate", word(d, 0)), Cell: core.CellName(word(d, 0))})
	},
	"arrive":         (*story).doArrive,
	"ready":          func(st *story, d *datadriven.TestData) { st.step(core.Ready{ID: requestID(d)}) },
	"done":           func(st *story, d *datadriven.TestData) { st.step(core.Done{ID: requestID(d)}) },
	"late":           func(st *story, d *datadriven.TestData) { st.step(core.Late{ID: requestID(d)}) },
	"gone":           func(st *story, d *datadriven.TestData) { st.step(core.Gone{ID: requestID(d)}) },
	"forward-failed": (*story).doForwardFailed,
	"probed": func(st *story, d *datadriven.TestData) {
		st.step(core.Probed{Op: st.op(d, "probe", word(d, 0)), Node: core.NodeID(word(d, 0)), OK: word(d, 1) == "ok"})
	},
	"evict": func(st *story, d *datadriven.TestData) { st.step(core.Evict{Cell: core.CellName(word(d, 0))}) },
	"drain": func(st *story, _ *datadriven.TestData) { st.step(core.Drain{}) },
	"own":   (*story).doOwn,
	"route": (*story).doRoute,
}

var writeOutcomes = map[string]core.WriteOutcome{
	"applied": core.Applied, "rejected": core.Rejected, "ambiguous": core.Ambiguous,
	"not-applied": core.NotApplied, "contended": core.Contended,
}

var readOutcomes = map[string]core.ReadOutcome{
	"found": core.Found, "absent": core.Absent, "failed": core.ReadFailed, "bad": core.BadRecord,
}

func contact(node string) core.Contact {
	return core.Contact{Addr: node + ":1", Key: "key", Protocol: 1}
}

func requestID(d *datadriven.TestData) core.RequestID {
	var id core.RequestID
	fmt.Sscan(word(d, 0), &id)
	return id
}

func (st *story) doNew(d *datadriven.TestData) {
	st.cfg = storyConfig()
	c := &st.cfg
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "failover-wait":
			c.FailoverWait = storyTime(d, a.Key)
		case "idle-after":
			c.IdleAfter = storyTime(d, a.Key)
		case "max-cells":
			c.MaxCells = storyInt(d, a.Key, 0)
		case "max-activations":
			c.MaxActivations = storyInt(d, a.Key, 0)
		case "max-queue":
			c.MaxQueue = storyInt(d, a.Key, 0)
		case "max-releases":
			c.MaxReleases = storyInt(d, a.Key, 0)
		default:
			panic(fmt.Sprintf("%s: unknown setting %s", d.Pos, a.Key))
		}
	}
	st.reset()
	fmt.Fprintln(&st.out, "a node")
}

// quietly runs something without printing it.
func (st *story) quietly(do func()) {
	before := st.out.String()
	do()
	st.out.Reset()
	st.out.WriteString(before)
}

// doStart gives a node its lease, with nobody else to be seen.
func (st *story) doStart(d *datadriven.TestData) {
	if st.name != "" {
		st.join()
	}
	if st.name = word(d, 0); st.name == "" {
		st.name = "me"
	}
	if d.HasArg("clock") {
		st.ahead = storyTime(d, "clock")
	}
	st.quietly(func() {
		st.step(core.Start{})
		st.step(core.Minted{Op: st.op(d, "mint", ""), Node: core.NodeID(st.name), Generation: "g", Contact: contact(st.name)})
		st.step(st.leaseApplied(st.op(d, "write lease", ""), nil))
		st.step(core.LeasesListed{Op: st.op(d, "list", "")})
	})
	st.show()
}

// doOwn makes the node the idle owner of a cell, at epoch 1.
func (st *story) doOwn(d *datadriven.TestData) {
	cell := word(d, 0)
	name := core.CellName(cell)
	st.quietly(func() {
		st.step(core.Arrive{ID: 1000, Cell: name, Deadline: st.clock() + sec(30)})
		st.step(core.OwnerRead{Op: st.op(d, "read owner", cell), Cell: name, Outcome: core.Absent})
		st.step(core.OwnerWritten{Op: st.op(d, "write owner", cell), Cell: name, Outcome: core.Applied, Version: "v1"})
		st.step(core.Activated{Op: st.op(d, "activate", cell), Cell: name, OK: true})
		st.step(core.Ready{ID: 1000})
		st.step(core.Done{ID: 1000})
	})
	st.showCell(name)
}

// doRoute makes the node know a cell as another's, by a request that it served.
func (st *story) doRoute(d *datadriven.TestData) {
	cell, node := word(d, 0), word(d, 1)
	name := core.CellName(cell)
	st.quietly(func() {
		st.step(core.Arrive{ID: 1000, Cell: name, Deadline: st.clock() + sec(30)})
		st.step(core.OwnerRead{Op: st.op(d, "read owner", cell), Cell: name, Outcome: core.Found, Owner: core.Owner{Node: core.NodeID(node), Epoch: core.Epoch(storyInt(d, "epoch", 3))}, Version: "v3"})
		if slicesHas(st.open, "read lease", node) {
			st.step(core.LeaseRead{Op: st.op(d, "read lease", node), Node: core.NodeID(node), Outcome: core.Found, Lease: leaseOf(node, 7), Version: "p7"})
		}
		st.step(core.Ready{ID: 1000})
		st.step(core.Done{ID: 1000})
	})
	st.showCell(name)
}

func slicesHas(open []openOp, kind, about string) bool {
	for _, o := range open {
		if o.kind == kind && o.about == about {
			return true
		}
	}
	return false
}

func leaseOf(node string, seq int) core.Lease {
	return core.Lease{Node: core.NodeID(node), Generation: "g", Seq: uint64(seq), TTL: sec(10), Contact: contact(node)}
}

// doOwnLease answers a read-back of the node's own lease.
func (st *story) doOwnLease(d *datadriven.TestData) {
	ev := core.LeaseRead{Op: st.op(d, "read lease", "own"), Node: st.s.Node(), Outcome: readOutcomes[word(d, 0)]}
	if ev.Outcome == core.Found {
		ev.Lease = st.wrote
		ev.Lease.Seq = uint64(storyInt(d, "seq", int(st.wrote.Seq)))
		ev.Lease.Generation = storyArg(d, "generation", "g")
		ev.Version = leaseVersion(ev.Lease.Seq)
	}
	st.step(ev)
}

func (st *story) doLeaseRead(d *datadriven.TestData) {
	node := word(d, 0)
	ev := core.LeaseRead{Op: st.op(d, "read lease", node), Node: core.NodeID(node), Outcome: readOutcomes[word(d, 1)]}
	ev.Stamps = st.stamps(d)
	if ev.Outcome == core.Found {
		seq := 7
		if of := st.known(node); of != nil {
			seq = int(of.landed.Seq)
			if !d.HasArg("nodate") && !d.HasArg("age") {
				ev.Stamps.Modified, ev.Stamps.HasModified = (of.landedAt+sec(1000))/1000*1000, true
			}
		}
		ev.Lease = leaseOf(node, storyInt(d, "seq", seq))
		ev.Lease.TTL = sec(float64(storyInt(d, "ttl", 10)))
		ev.Lease.Protocol = storyInt(d, "protocol", 1)
		ev.Lease.Released = d.HasArg("released")
		if d.HasArg("noaddr") {
			ev.Lease.Addr = ""
		}
		ev.Version = core.Version(fmt.Sprintf("p%d", ev.Lease.Seq))
	}
	st.step(ev)
}

func (st *story) doListed(d *datadriven.TestData) {
	ev := core.LeasesListed{Op: st.op(d, "list", "")}
	for n := 0; word(d, n) != ""; n++ {
		ev.Nodes = append(ev.Nodes, core.NodeID(word(d, n)))
	}
	st.step(ev)
}

func (st *story) doOwnerRead(d *datadriven.TestData) {
	cell := word(d, 0)
	ev := core.OwnerRead{Op: st.op(d, "read owner", cell), Cell: core.CellName(cell), Outcome: readOutcomes[word(d, 1)]}
	ev.Owner = core.Owner{Node: core.NodeID(storyArg(d, "node", "")), Epoch: core.Epoch(storyInt(d, "epoch", 0))}
	ev.Version = core.Version(storyArg(d, "v", ""))
	st.step(ev)
}

func (st *story) doArrive(d *datadriven.TestData) {
	deadline := st.clock() + sec(30)
	if d.HasArg("deadline") {
		deadline = storyTime(d, "deadline")
	}
	st.step(core.Arrive{
		ID: requestID(d), Cell: core.CellName(word(d, 1)), Deadline: deadline,
		Forwarded: d.HasArg("forwarded"), Own: d.HasArg("own"), Try: d.HasArg("try"),
	})
}

func (st *story) doForwardFailed(d *datadriven.TestData) {
	how := map[string]core.ForwardFailure{
		"not-connected": core.NotConnected, "broken": core.ForwardBroken, "not-mine": core.NotMine, "refused": core.PeerRefused,
	}
	ev := core.ForwardFailed{ID: requestID(d), How: how[word(d, 1)]}
	if ev.How == core.PeerRefused {
		ev.Refusal = core.Failure{Code: core.Code(strings.ReplaceAll(storyArg(d, "code", ""), "_", "-"))}
	}
	st.step(ev)
}
