package core_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tenure-go/tenure/core"
)

// Stories: one node, and a script that plays the bucket, the peers and the
// application. Each file of testdata tells one story; "go test ./core -run
// Story -rewrite" writes what the core does into it, for a reviewer to read.
//
// A command is an event, or one of: new (a node with the given settings),
// start (it gets its lease), lease manual (renewals are part of the story;
// otherwise they succeed unseen), until T (time passes), show. Every command
// takes at=T: time passes first. Times are seconds.
//
// "start a" and "start b" make it a story of two nodes over the one bucket that
// the script plays. Every command but until then takes on=NODE, effects are
// printed with the node, and a lease that one reads of the other is the one that
// it last wrote. "start b clock=9" gives it a clock that is 9 s ahead; what b does
// is printed by b's own clock. "kill" ends a node's process.
func TestStory(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		st := newStory()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return st.run(t, d)
		})
	})
}

// forAll are the commands that are not for one node.
var forAll = map[string]bool{"new": true, "start": true, "until": true}

type story struct {
	*actor // whom the command is for
	all    []*actor
	cfg    core.Config
	now    core.Time
	out    strings.Builder
	err    error // in the script
}

// actor is a node of a story.
type actor struct {
	s        *core.State
	name     string    // empty before it was started
	ahead    core.Time // its clock
	open     []openOp
	manual   bool
	wrote    core.Lease // the last lease sent
	landed   core.Lease // the last that was applied
	landedAt core.Time
	killed   bool
}

// openOp is an operation that was not answered.
type openOp struct {
	id    core.OpID
	kind  string
	about string
}

func sec(f float64) core.Time { return core.Time(f*1000 + 0.5) }

// storyConfig is that of a fleet with a TTL of 10 s, in milliseconds.
func storyConfig() core.Config {
	return core.Config{
		TTL: sec(10), Slack: sec(0.5), Renew: 3333, LeaseDeadline: 1666, RetryStep: sec(0.05),
		OpDeadline: sec(5), DialDeadline: sec(1), ActivateDeadline: sec(10), DeactivateDeadline: sec(5),
		DrainDeadline: sec(25), Rounding: sec(1), Allowance: sec(1), IdleAfter: sec(600),
		MaxActivations: 16, MaxReleases: 128, MaxQueue: 10000, MaxRoutes: 1000, MaxPeers: 100, Protocol: 1,
	}
}

func newStory() *story {
	st := &story{cfg: storyConfig()}
	st.reset()
	return st
}

func (st *story) reset() {
	*st = story{cfg: st.cfg}
	st.join()
}

// join adds a node.
func (st *story) join() {
	s, err := core.New(st.cfg)
	if err != nil {
		panic(err)
	}
	st.actor = &actor{s: s}
	st.all = append(st.all, st.actor)
}

// known finds a node of the story by its name.
func (st *story) known(name string) *actor {
	for _, a := range st.all {
		if a.name == name && name != "" {
			return a
		}
	}
	return nil
}

// clock is the node's own.
func (st *story) clock() core.Time { return st.now + st.ahead }

// who is the node's name where there is more than one.
func (st *story) who() string {
	if len(st.all) == 1 {
		return ""
	}
	return st.name + " "
}

func (st *story) run(t *testing.T, d *datadriven.TestData) string {
	st.out.Reset()
	if d.HasArg("at") {
		st.until(storyTime(d, "at"))
	}
	do, is := storyCommands[d.Cmd]
	if !is {
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	if on := storyArg(d, "on", ""); on != "" {
		st.actor = st.known(on)
	}
	if st.actor == nil || st.killed && !forAll[d.Cmd] || len(st.all) > 1 && !d.HasArg("on") && !forAll[d.Cmd] {
		d.Fatalf(t, "which node is the command for?")
	}
	do(st, d)
	for _, a := range st.all {
		if err := a.s.Check(); err != nil {
			d.Fatalf(t, "%s %v", a.name, err)
		}
	}
	if st.err != nil {
		t.Error(st.err)
		st.err = nil
		return "ERROR\n" + st.out.String()
	}
	if st.out.Len() == 0 {
		return "nothing\n"
	}
	return st.out.String()
}

// until lets time pass, with every Tick that a State asks for.
func (st *story) until(at core.Time) {
	was := st.actor
	defer func() { st.actor = was }()
	due := func(a *actor) core.Time {
		if a.killed {
			return at + 1
		}
		return a.s.Next() - a.ahead
	}
	for range 1000 {
		st.actor = slices.MinFunc(st.all, func(a, b *actor) int { return cmp.Compare(due(a), due(b)) })
		next := due(st.actor)
		if next > at {
			st.now = max(st.now, at)
			return
		}
		if next < st.now {
			panic("the State asks for a Tick in the past")
		}
		st.now = next
		before := st.out.Len()
		st.step(core.Tick{})
		if text := st.out.String(); len(text) > before {
			st.out.Reset()
			fmt.Fprintf(&st.out, "%s%s %stick\n%s", text[:before], clockText(st.clock()), st.who(), text[before:])
		}
	}
	panic("1000 ticks were not enough")
}

// step gives the State an event and prints what it decides.
func (st *story) step(ev core.Event) {
	effects := slices.Clone(st.s.Step(st.clock(), ev))
	var renew *core.WriteLease
	for _, e := range effects {
		if wl, is := e.(core.WriteLease); is && !st.manual && wl.Expect != "" && !wl.Lease.Released {
			renew = &wl
			continue
		}
		p := &printer{}
		e.Do(p)
		fmt.Fprintf(&st.out, "  %s> %s\n", st.who(), p.text)
		if p.op.id != 0 {
			st.open = append(st.open, p.op)
		}
		if wl, is := e.(core.WriteLease); is {
			st.wrote = wl.Lease
		}
	}
	if renew != nil {
		st.wrote = renew.Lease
		st.step(st.leaseApplied(renew.Op, nil))
	}
}

// leaseApplied says that the last lease sent has landed.
func (st *story) leaseApplied(op core.OpID, d *datadriven.TestData) core.LeaseWritten {
	st.landed, st.landedAt = st.wrote, st.now
	return core.LeaseWritten{Op: op, Outcome: core.Applied, Version: leaseVersion(st.wrote.Seq), Stamps: st.stamps(d)}
}

func leaseVersion(seq uint64) core.Version { return core.Version(fmt.Sprintf("l%d", seq)) }

// stamps are the store's; its clock runs in step with the node's.
func (st *story) stamps(d *datadriven.TestData) core.Stamps {
	s := core.Stamps{Date: (st.now + sec(1000)) / 1000 * 1000, HasDate: true}
	switch {
	case d == nil:
	case d.HasArg("nodate"):
		return core.Stamps{}
	case d.HasArg("age"):
		s.Modified, s.HasModified = s.Date-storyTime(d, "age"), true
	}
	if d != nil && d.HasArg("date") {
		s.Date = storyTime(d, "date")
	}
	return s
}

// op finds the operation that an event completes: the one named, or the newest
// of its kind that is not answered.
func (st *story) op(d *datadriven.TestData, kind, about string) core.OpID {
	if d.HasArg("op") {
		n, _ := strconv.Atoi(storyArg(d, "op", ""))
		return core.OpID(n)
	}
	for i, o := range slices.Backward(st.open) {
		if o.kind == kind && o.about == about {
			st.open = slices.Delete(st.open, i, i+1)
			return o.id
		}
	}
	st.err = fmt.Errorf("%s: no %s of %q is open", d.Pos, kind, about)
	return 0
}

func (st *story) show() {
	c := st.s.Counts()
	fmt.Fprintf(&st.out, "%s %sowned %d, leaving %d, resolving %d, routes %d, waiting %d, requests %d, peers %d, dead %d\n",
		clockText(st.clock()), st.who(), c.Owned, c.Leaving, c.Resolving, c.Routes, c.Waiting, c.Requests, c.Peers, c.Dead)
	if st.s.Held() {
		fmt.Fprintf(&st.out, "authority until %s\n", clockText(st.s.AuthorityEnds()))
	}
}

func (st *story) showCell(name core.CellName) {
	v, ok := st.s.Cell(name)
	if !ok {
		fmt.Fprintf(&st.out, "%s: nothing is known\n", name)
		return
	}
	fmt.Fprintf(&st.out, "%s: %s, owner %q at epoch %d\n", name, v.Phase, v.Owner, v.Epoch)
}

func clockText(t core.Time) string { return fmt.Sprintf("%d.%03d", t/1000, t%1000) }

// storyArg is the value of an argument.
func storyArg(d *datadriven.TestData, key, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return strings.Join(a.Vals, ",")
		}
	}
	return otherwise
}

func storyTime(d *datadriven.TestData, key string) core.Time {
	f, err := strconv.ParseFloat(storyArg(d, key, ""), 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", d.Pos, key, err))
	}
	return sec(f)
}

func storyInt(d *datadriven.TestData, key string, otherwise int) int {
	n, err := strconv.Atoi(storyArg(d, key, strconv.Itoa(otherwise)))
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", d.Pos, key, err))
	}
	return n
}

// word is the n-th argument that has no value.
func word(d *datadriven.TestData, n int) string {
	for _, a := range d.CmdArgs {
		if len(a.Vals) > 0 {
			continue
		}
		if n == 0 {
			return a.Key
		}
		n--
	}
	return ""
}
