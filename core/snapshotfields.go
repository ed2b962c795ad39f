package core

// The fields of a State, a function for each of its parts. A field that is added
// to the state must be added here; a test changes each field and looks whether
// what is saved changes.

func number[T ~int | ~int32 | ~int64 | ~uint | ~uint8 | ~uint64](a Archive, name string, v *T) {
	n := int64(*v)
	a.Number(name, &n)
	*v = T(n)
}

func text[T ~string](a Archive, name string, v *T) {
	s := string(*v)
	a.Text(name, &s)
	*v = T(s)
}

func flag(a Archive, name string, v *bool) {
	n := int64(count(*v))
	a.Number(name, &n)
	*v = n != 0
}

func list[T any](a Archive, name string, all *[]T, item func(*T)) {
	a.List(name, len(*all), func(i int) {
		if i == len(*all) {
			var zero T
			*all = append(*all, zero)
		}
		item(&(*all)[i])
	})
}

func texts[T ~string](a Archive, name string, all *[]T) {
	list(a, name, all, func(v *T) { text(a, "is", v) })
}

// optional is a part that may be missing: a list of one or none.
func optional[T any](a Archive, name string, v **T, fields func(*T)) {
	a.List(name, count(*v != nil), func(int) {
		if *v == nil {
			*v = new(T)
		}
		fields(*v)
	})
}

func (im *image) fields(a Archive) {
	s := &im.state
	a.Group("config", func() { s.cfg.Fields(a) })
	number(a, "now", &s.now)
	number(a, "last_op", &s.lastOp)
	a.Group("lease", func() { s.lease.fields(a) })
	a.Group("clock", func() { s.clock.fields(a) })
	a.Group("drain", func() { s.drain.fields(a) })
	a.Group("requests", func() {
		number(a, "waiting", &s.reqs.waiting)
		number(a, "grants", &s.reqs.grants)
	})
	list(a, "request", &im.requests, func(r **request) { made(r).fields(a) })
	a.Group("peers", func() { number(a, "reading", &s.peers.reading) })
	texts(a, "unread", &s.peers.unread)
	list(a, "peer", &im.peers, func(p *peerImage) {
		made(&p.peer).fields(a)
		list(a, "sent", &p.sent, func(id *RequestID) { number(a, "is", id) })
		texts(a, "cells", &p.cells)
	})
	list(a, "dead", &im.dead, func(ev *Evidence) { ev.fields(a) })
	a.Group("cells", func() { s.cells.counts(a) })
	list(a, "cell", &im.cells, func(c **cell) { made(c).fields(a) })
	texts(a, "queue", &im.queue)
	texts(a, "idle", &im.idle)
	texts(a, "routes", &im.routes)
	list(a, "timer", &s.timers.heap, func(t *timer) { t.fields(a) })
}

func made[T any](v **T) *T {
	if *v == nil {
		*v = new(T)
	}
	return *v
}

// Fields stores or loads the settings.
func (c *Config) Fields(a Archive) {
	for _, f := range []struct {
		name string
		v    *Time
	}{
		{"ttl", &c.TTL}, {"slack", &c.Slack}, {"renew", &c.Renew}, {"lease_deadline", &c.LeaseDeadline},
		{"retry_step", &c.RetryStep}, {"op_deadline", &c.OpDeadline}, {"dial_deadline", &c.DialDeadline},
		{"activate_deadline", &c.ActivateDeadline}, {"deactivate_deadline", &c.DeactivateDeadline},
		{"drain_deadline", &c.DrainDeadline}, {"rounding", &c.Rounding}, {"allowance", &c.Allowance},
		{"idle_after", &c.IdleAfter}, {"failover_wait", &c.FailoverWait},
	} {
		number(a, f.name, f.v)
	}
	for _, f := range []struct {
		name string
		v    *int
	}{
		{"max_cells", &c.MaxCells}, {"max_activations", &c.MaxActivations}, {"max_releases", &c.MaxReleases},
		{"max_queue", &c.MaxQueue}, {"max_routes", &c.MaxRoutes}, {"max_peers", &c.MaxPeers}, {"protocol", &c.Protocol},
	} {
		number(a, f.name, f.v)
	}
}

func (l *lease) fields(a Archive) {
	number(a, "phase", &l.phase)
	text(a, "node", &l.node)
	text(a, "generation", &l.generation)
	a.Group("contact", func() { l.contact.fields(a) })
	text(a, "version", &l.version)
	number(a, "confirmed", &l.confirmed)
	number(a, "seq", &l.seq)
	list(a, "attempts", &l.attempts, func(t *attempt) {
		number(a, "seq", &t.seq)
		number(a, "anchor", &t.anchor)
	})
	number(a, "end", &l.end)
	number(a, "op", &l.op)
	flag(a, "reading", &l.reading)
	number(a, "step", &l.step)
	number(a, "wake", &l.wake)
	flag(a, "fresh", &l.fresh)
	number(a, "restarts", &l.restarts)
	flag(a, "listed", &l.listed)
	number(a, "list_op", &l.listOp)
}

func (c *Contact) fields(a Archive) {
	text(a, "addr", &c.Addr)
	text(a, "key", &c.Key)
	number(a, "protocol", &c.Protocol)
}

func (l *Lease) fields(a Archive) {
	text(a, "node", &l.Node)
	text(a, "generation", &l.Generation)
	number(a, "seq", &l.Seq)
	number(a, "ttl", &l.TTL)
	flag(a, "released", &l.Released)
	l.Contact.fields(a)
}

func (k *storeClock) fields(a Archive) {
	list(a, "samples", &k.samples, func(x *clockSample) {
		number(a, "low", &x.low)
		number(a, "high", &x.high)
		number(a, "at", &x.at)
	})
	number(a, "since", &k.since)
	flag(a, "running", &k.running)
}

func (d *drain) fields(a Archive) {
	flag(a, "on", &d.on)
	flag(a, "closing", &d.closing)
	number(a, "cut", &d.cut)
	number(a, "ends", &d.ends)
}

func (r *request) fields(a Archive) {
	number(a, "id", &r.id)
	text(a, "cell", &r.cell)
	number(a, "deadline", &r.deadline)
	number(a, "patience", &r.patience)
	number(a, "wake", &r.wake)
	number(a, "state", &r.state)
	flag(a, "own", &r.own)
	flag(a, "try", &r.try)
	flag(a, "forwarded", &r.forwarded)
	flag(a, "answered", &r.answered)
	flag(a, "granted", &r.granted)
	flag(a, "failed", &r.failed)
	flag(a, "reconnect", &r.reconnect)
	flag(a, "refused", &r.refused)
	text(a, "node", &r.node)
}

func (p *peer) fields(a Archive) {
	text(a, "id", &p.id)
	a.Group("lease", func() { p.lease.fields(a) })
	flag(a, "known", &p.known)
	a.Group("seen", func() {
		text(a, "version", &p.seen.version)
		flag(a, "absent", &p.seen.absent)
		number(a, "since", &p.seen.since)
		flag(a, "valid", &p.seen.valid)
	})
	number(a, "checked", &p.checked)
	number(a, "quiet", &p.quiet)
	number(a, "unanswered", &p.unanswered)
	flag(a, "ignored", &p.ignored)
	flag(a, "suspect", &p.suspect)
	number(a, "follow", &p.follow)
	number(a, "aged", &p.aged)
	flag(a, "bad", &p.bad)
	flag(a, "lost", &p.lost)
	number(a, "op", &p.op)
	number(a, "op_from", &p.opFrom)
	number(a, "op_ends", &p.opEnds)
	number(a, "read_at", &p.readAt)
	number(a, "probe", &p.probe)
	number(a, "probe_by", &p.probeBy)
	number(a, "probe_at", &p.probeAt)
	number(a, "wake", &p.wake)
	number(a, "used", &p.used)
}

func (ev *Evidence) fields(a Archive) {
	text(a, "node", &ev.Node)
	text(a, "rule", &ev.Rule)
	text(a, "version", &ev.Version)
	number(a, "date", &ev.Stamps.Date)
	flag(a, "has_date", &ev.Stamps.HasDate)
	number(a, "modified", &ev.Stamps.Modified)
	flag(a, "has_modified", &ev.Stamps.HasModified)
	number(a, "took", &ev.Took)
	number(a, "watched", &ev.Watched)
}

// counts are the counts of phases; Restore counts them anew to check them.
func (cs *cells) counts(a Archive) {
	number(a, "slots", &cs.slots)
	number(a, "claims", &cs.claims)
	number(a, "owned", &cs.owned)
	number(a, "leaving", &cs.leaving)
	number(a, "working", &cs.working)
}

func (c *cell) fields(a Archive) {
	text(a, "name", &c.name)
	number(a, "phase", &c.phase)
	text(a, "evict", &c.evict)
	number(a, "running", &c.running)
	flag(a, "held", &c.held)
	number(a, "epoch", &c.epoch)
	text(a, "version", &c.version)
	text(a, "owner", &c.owner)
	number(a, "last_used", &c.lastUsed)
	optional(a, "work", &c.work, func(w *work) { w.fields(a) })
}

func (w *work) fields(a Archive) {
	number(a, "op", &w.op)
	number(a, "wake", &w.wake)
	list(a, "waiters", &w.waiters, func(id *RequestID) { number(a, "is", id) })
	number(a, "claim", &w.claim)
	flag(a, "claim_again", &w.claimAgain)
	number(a, "reconciles", &w.reconciles)
	number(a, "pauses", &w.pauses)
	text(a, "prior", &w.prior)
	optional(a, "takeover", &w.takeover, func(ev *Evidence) { ev.fields(a) })
	flag(a, "read_back", &w.readBack)
}

func (t *timer) fields(a Archive) {
	number(a, "at", &t.at)
	number(a, "kind", &t.kind)
	text(a, "name", &t.name)
	number(a, "id", &t.id)
}
