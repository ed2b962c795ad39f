package sim

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
	"github.com/tenure-go/tenure/node"
)

// watch is what is known of a process beside its own state, to judge it.
type watch struct {
	p       *proc
	anchors map[uint64]core.Time // of its lease writes, by seq
	lastSeq uint64
	applied core.Time // anchor of the newest that the store has applied
	begins  core.Time // the end of the authority as of the last step
	open    []*pending
	byID    map[core.RequestID]*pending
	ticks   int // in a row, since tickAt
	tickAt  core.Time
	steps   int
	twin    *core.State    // a copy from before the next step; mostly nil
	asks    map[string]int // of the bucket
	dead    int            // nodes that it has judged dead
	tombed  bool           // it has decided to write its tombstone
	landed  int64          // real time of its last applied lease write
}

// pending is a request as the core has it.
type pending struct {
	arrive                                core.Arrive
	dispatched, answered, failed, aborted bool
	gone, late                            bool
}

func (q *pending) settled() bool {
	return q.answered || q.failed || q.gone || q.arrive.Own && q.dispatched
}

func (k *watch) init(p *proc) {
	*k = watch{p: p, anchors: map[uint64]core.Time{}, byID: map[core.RequestID]*pending{}, asks: map[string]int{}}
}

// asked counts what a process asks of the bucket.
func (p *proc) asked(o *op) { p.watch.asks[o.kind()]++ }

func (o *op) kind() string {
	return [...]string{"other", "cell", "lease", "own"}[o.class] + " " + o.verb
}

// traced judges every step of a node's core.
func (p *proc) traced(d node.Decision) {
	w, k := p.w, &p.watch
	p.state = d.State
	w.stats.Steps++
	w.digestStep(p, d)
	if w.cfg.Story != nil {
		p.tell(d)
	}
	if now := p.showing(); now != d.Now {
		w.violated("time", "%s took %T at %d, and its clock shows %d", p.name, d.Event, d.Now, now)
	}
	k.checkTwin(d)
	k.event(d)
	for _, e := range d.Effects {
		k.effect(d, e)
	}
	if !p.over {
		k.after(d)
	}
	if w.bad == nil {
		p.deciding(d.Effects)
	}
}

// event takes note of what the core was told.
func (k *watch) event(d node.Decision) {
	p := k.p
	switch ev := d.Event.(type) {
	case core.Minted:
		p.w.byID[ev.Node] = p
		k.applied = 0
	case core.LeaseRead:
		dead := d.State.Counts().Dead
		if dead > k.dead {
			p.w.judgeVerdict(p, ev)
		}
		k.dead = dead
	case core.Arrive:
		q := &pending{arrive: ev}
		k.open, k.byID[ev.ID] = append(k.open, q), q
	case core.Gone:
		k.gone(ev.ID, false)
	case core.Done:
		k.gone(ev.ID, true)
	case core.Late:
		p.w.stats.Late++
		if q := k.byID[ev.ID]; q != nil {
			q.late = true
		}
	}
}

func (k *watch) gone(id core.RequestID, done bool) {
	if q := k.byID[id]; q != nil {
		q.gone = true
		if done {
			delete(k.byID, id)
		}
	}
}

// effect judges what the core decided.
func (k *watch) effect(d node.Decision, e core.Effect) {
	p, w := k.p, k.p.w
	if _, fails := e.(core.Fail); p.over && !fails {
		w.violated("S7", "%s decided %T after its end", p.name, e)
	}
	switch e := e.(type) {
	case core.WriteLease:
		if e.Lease.Seq <= k.lastSeq {
			w.violated("lease", "%s uses seq %d again", e.Lease.Node, e.Lease.Seq)
		}
		k.anchors[e.Lease.Seq], k.lastSeq = d.Now, e.Lease.Seq
		k.tombed = e.Lease.Released
	case core.WriteOwner:
		k.writeOwner(e)
	case core.Dispatch:
		k.settles(e.ID, e, func(q *pending) bool {
			ok := !q.failed && !q.answered && !q.aborted && (!q.dispatched || q.late)
			q.dispatched, q.late = true, false
			return ok
		})
	case core.Answer:
		k.settles(e.ID, e, func(q *pending) bool {
			ok := !q.failed && !q.aborted && (!q.answered || q.late)
			q.answered, q.late = true, false
			return ok
		})
	case core.Fail:
		k.settles(e.ID, e, func(q *pending) bool {
			ok := !q.failed && !q.answered && !q.aborted
			q.failed = true
			return ok
		})
	case core.Abort:
		k.settles(e.ID, e, func(q *pending) bool {
			ok := !q.failed && !q.aborted && (q.answered || q.arrive.Own && q.dispatched)
			q.aborted = true
			return ok
		})
	case core.End:
		p.over = true
		k.end(d, e)
	}
}

// settles: each request has exactly one answer.
func (k *watch) settles(id core.RequestID, e core.Effect, fits func(*pending) bool) {
	if q := k.byID[id]; q != nil && !fits(q) {
		k.p.w.violated("L1", "%s decided %T%+v on %+v", k.p.name, e, e, *q)
	}
}

func (k *watch) writeOwner(e core.WriteOwner) {
	w := k.p.w
	if e.Owner.Node == "" {
		w.stats.Releases++
		if it := k.p.apps[e.Cell]; it != nil && !it.busy {
			w.violated("hooks", "%s releases %s, which is still active: %+v", k.p.name, e.Cell, *it)
		}
		return
	}
	w.stats.Claims++
	if k.p.state.Draining() {
		w.violated("drain", "%s claims %s at epoch %d while it drains", k.p.name, e.Cell, e.Owner.Epoch)
	}
	if (e.Expect == "") != (e.Owner.Epoch == 1) {
		w.violated("S2", "%s claims %s at epoch %d against version %q", k.p.name, e.Cell, e.Owner.Epoch, e.Expect)
	}
	if e.Evidence != nil {
		w.stats.Takeovers++
		w.judgeTakeover(k.p, e)
	}
}

// judgeTakeover: the verdict must be true at this instant of real time.
func (w *world) judgeTakeover(p *proc, e core.WriteOwner) {
	if v := w.alive(e.Evidence.Node, e.Evidence.Rule == core.RuleReleased); v != nil {
		w.violated("takeover", "%s takes %s over from %s, which has authority for %d more: %+v",
			p.name, e.Cell, v.name, v.state.AuthorityEnds()-v.showing(), *e.Evidence)
	}
}

// judgeVerdict: and so must it be when it is reached.
func (w *world) judgeVerdict(p *proc, by core.LeaseRead) {
	if v := w.alive(by.Node, by.Lease.Released); v != nil {
		w.violated("takeover", "%s judges %s dead, which has authority for %d more: %+v",
			p.name, v.name, v.state.AuthorityEnds()-v.showing(), by)
	}
}

// alive is the process of a node that has authority; nil: it has none. After its
// tombstone its lease lives on, but it serves nothing any more.
func (w *world) alive(id core.NodeID, released bool) *proc {
	v := w.byID[id]
	switch {
	case v == nil || v.dead || v.over || v.id() != id || !v.state.Held() || v.showing() >= v.state.AuthorityEnds():
		return nil
	case released && v.state.Draining() && v.state.Counts().Owned == 0:
		return nil
	}
	return v
}

// end: every request has had its answer by now (L1), and the reason is true.
func (k *watch) end(d node.Decision, e core.End) {
	p, w := k.p, k.p.w
	if e.Reason.Fenced() {
		w.stats.Fenced++
	} else {
		w.stats.Drained++
	}
	for _, q := range k.open {
		if !q.settled() {
			w.violated("L1", "%s ended without an answer to %+v", p.name, *q)
		}
	}
	k.judgeFence(e.Reason)
	if e.Reason == core.ReasonExpired && d.Now < k.begins {
		w.violated("L4", "%s fenced at %d because its authority has expired, which lasts until %d", p.name, d.Now, k.begins)
	}
}

func (k *watch) judgeFence(why core.Reason) {
	p, w := k.p, k.p.w
	key := wire.LeaseKey(p.id())
	now := w.store.peek(key)
	switch {
	case why == core.ReasonMissing && now != nil && !w.store.spoiled[key]:
		w.violated("L4", "%s fenced because its lease is missing, which is there: %s", p.name, now)
	case why == core.ReasonReplaced && !w.store.spoiled[key]:
		w.violated("L4", "%s fenced because its lease was replaced, which nobody did: %s", p.name, now)
	case why == core.ReasonExpired && w.plan.leaseOnly && !w.store.spoiled[key]:
		w.violated("L4", "%s fenced though no more than half a TTL of its lease traffic failed", p.name)
	}
}

// after judges the state as a step has left it.
func (k *watch) after(d node.Decision) {
	p, w, s := k.p, k.p.w, d.State
	if next := s.Next(); next <= d.Now {
		w.violated("progress", "%s asks for a Tick at %d, and it is %d", p.name, next, d.Now)
	}
	if end := s.AuthorityEnds(); s.Held() && end > k.applied+core.Time(w.plan.ttl-w.plan.slack) {
		w.violated("S5", "%s has authority until %d, its newest applied lease write was decided at %d", p.name, end, k.applied)
	}
	if s.Held() && k.begins != 0 && d.Now >= k.begins && s.AuthorityEnds() != k.begins && !s.Draining() {
		w.violated("S5", "%s had authority until %d, and has it again at %d", p.name, k.begins, d.Now)
	}
	k.begins = 0
	if s.Held() {
		k.begins = s.AuthorityEnds()
	}
	k.checkTicks(d)
	k.checkDeadlines(d.Now)
	k.checkState(d)
}

// checkDeadlines: L1, within the deadline.
func (k *watch) checkDeadlines(now core.Time) {
	k.open = slices.DeleteFunc(k.open, (*pending).settled)
	for _, q := range k.open {
		if now > q.arrive.Deadline {
			k.p.w.violated("L1", "at %d %s has not answered %+v", now, k.p.name, *q)
		}
	}
}

// checkState has the core check itself, as often as there is time for it: that
// takes longer the more there is.
func (k *watch) checkState(d node.Decision) {
	c := d.State.Counts()
	k.steps++
	every := 4 + (c.Owned+c.Routes+c.Requests+c.Peers)/4
	if k.steps < every {
		return
	}
	k.steps = 0
	k.p.w.stats.Checked++
	k.copy(d.State)
	if err := d.State.Check(); err != nil {
		k.p.w.violated("invariant", "%s: %v", k.p.name, err)
	}
}

// copy keeps a clone, or a state that was saved and restored, now and then.
func (k *watch) copy(s *core.State) {
	k.twin = nil
	switch k.p.w.stats.Checked % 32 {
	case 8, 16, 24:
		k.twin = s.Clone()
	case 0:
		twin, err := restored(s)
		if err != nil {
			k.p.w.violated("copy", "%s cannot be saved and restored: %v", k.p.name, err)
		}
		k.twin = twin
	}
}

// checkTwin lets a copy decide too, if there is one.
func (k *watch) checkTwin(d node.Decision) {
	twin := k.twin
	if k.twin = nil; twin == nil {
		return
	}
	var mine, its digest
	for _, e := range d.Effects {
		mine.effect(e)
	}
	for _, e := range twin.Step(d.Now, d.Event) {
		its.effect(e)
	}
	if mine != its || twin.Next() != d.State.Next() || !slices.Equal(saved(twin), saved(d.State)) {
		k.p.w.violated("copy", "%s and its copy decide differently on %T%+v", k.p.name, d.Event, d.Event)
	}
}

// checkTicks: a node that has nothing to do is left alone.
func (k *watch) checkTicks(d node.Decision) {
	if _, is := d.Event.(core.Tick); !is || d.Now-k.tickAt > core.Time(k.p.w.plan.ttl) {
		k.ticks, k.tickAt = 0, d.Now
		return
	}
	if k.ticks++; k.ticks > 300+20*len(k.byID) {
		k.p.w.violated("progress", "%s was ticked %d times within a TTL", k.p.name, k.ticks)
	}
}

// mayBegin is S3 and S7, judged at the instant of the act.
func (p *proc) mayBegin(cell core.CellName, epoch core.Epoch, what string) {
	w := p.w
	if epoch < w.begun[cell] {
		w.violated("S3", "%s begins %s for %s at epoch %d, after one at %d", p.name, what, cell, epoch, w.begun[cell])
	}
	w.begun[cell] = max(w.begun[cell], epoch)
	if p.over || p.overNow() || p.watch.tombed {
		w.violated("S7", "%s begins %s for %s after its end", p.name, what, cell)
	}
	if p.showing() >= p.state.AuthorityEnds() {
		w.violated("S3", "%s begins %s for %s without authority", p.name, what, cell)
	}
	for _, q := range w.procs {
		if other, may := q.mayServe(cell); may && q != p {
			w.violated("S3", "%s begins %s for %s at epoch %d, and %s may at %d", p.name, what, cell, epoch, q.name, other)
		}
	}
}

// judgeWrite judges a write that the store has applied.
func (w *world) judgeWrite(o *op, old bucket.Object) {
	switch o.class {
	case classOwn:
		w.judgeLease(o)
	case classCell:
		w.judgeOwner(o, old)
	case classLease:
		w.violated("records", "%s wrote the lease of another node: %s", o.p.name, o.key)
	}
}

func (w *world) judgeLease(o *op) {
	id, _ := wire.NodeOfKey(o.key)
	var rec struct {
		Seq      uint64
		Released bool
	}
	if err := json.Unmarshal(o.body, &rec); err != nil {
		w.violated("records", "%s wrote a bad lease: %v", o.p.name, err)
		return
	}
	k := &o.p.watch
	if at, ours := k.anchors[rec.Seq]; ours && !rec.Released && o.p.id() == id {
		k.applied, k.landed = max(k.applied, at), w.t
		if f := w.aimed(o.key); f != nil && len(f.held) > 0 {
			f.release()
		}
	}
}

// judgeOwner: S1, S2, S6, and that what is not a record is left alone.
func (w *world) judgeOwner(o *op, old bucket.Object) {
	var now, was core.Owner // read here by itself, as the decoder is on trial too
	if err := json.Unmarshal(o.body, &now); err != nil {
		w.violated("records", "%s wrote a bad record: %v", o.p.name, err)
		return
	}
	if err := json.Unmarshal(old.Body, &was); old.Body != nil && err != nil || w.store.spoiled[o.key] {
		w.violated("records", "%s overwrote %s, which is not a record: %s", o.p.name, o.key, old.Body)
		return
	}
	switch writer := o.p; {
	case now.Node == "" && w.byID[was.Node] != writer:
		w.violated("S6", "%s released %s, which was %+v", writer.name, o.key, was)
	case now.Node == "" && now.Epoch != was.Epoch:
		w.violated("S2", "the release of %s changed %+v to %+v", o.key, was, now)
	case now.Node != "" && now.Epoch != was.Epoch+1:
		w.violated("S2", "%s went from %+v to %+v", o.key, was, now)
	case now.Node != "" && w.byID[now.Node] != writer:
		w.violated("S1", "%s claimed %s for another node: %+v", writer.name, o.key, now)
	case now.Node != "" && w.byID[was.Node] != writer && w.alive(was.Node, true) != nil:
		w.violated("takeover", "%s claimed %s, whose owner lives: %+v", writer.name, o.key, was)
	}
}

// peek is what is in the store; nil: nothing.
func (s *store) peek(key string) []byte {
	obj, err := s.mem.Get(s.w.background(), key)
	if errors.Is(err, bucket.ErrNotExist) {
		return nil
	}
	return obj.Body
}
