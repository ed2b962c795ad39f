package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/internal/wire"
)

var (
	errLost    = errors.New("connection reset by peer")
	errRefused = bucket.NotApplied(errors.New("connection refused"))
	errDown    = errors.New("503 service unavailable")
)

// disturb changes the course of a request as the faults of the moment want it.
func (w *world) disturb(o *op, c *course) {
	for _, f := range w.active {
		if !f.on(o.p.m) && f.Kind != kindEdge {
			continue
		}
		if f.Kind == kindCut || f.Kind == kindIsolated {
			if f.Kind == kindCut || !f.aims && w.t >= int64(f.At)+f.stage {
				unreachable(f, o, c)
			}
		} else if o.class != classOther && f.concerns(o) {
			f.disturb(o, c, w.plan.ttl)
		}
		if c.fails != nil || c.hangs {
			return
		}
	}
}

// concerns: a fault may strike only some of the traffic.
func (f *fault) concerns(o *op) bool {
	switch f.Kind {
	case kindRenewals:
		return o.class == classOwn
	case kindEdge:
		return o.class == classOwn && o.writes() || o.class == classLease
	case kindBlind:
		return !o.writes() && (o.class == classLease) == (f.mode%3 > 0) && o.class != classOwn
	}
	switch f.mode % 4 {
	case 0:
		return o.class == classCell
	case 1:
		return o.class == classOwn
	}
	return true
}

// unreachable: packets vanish, or the connection is refused.
func unreachable(f *fault, o *op, c *course) {
	if f.mode%3 == 0 {
		c.fails, c.lands = errRefused, false
		return
	}
	c.hangs, c.lands = true, false
	if !o.writes() {
		return
	}
	// What was under way when the line was cut may have arrived.
	if f.roll(100) {
		c.lands = true
	}
}

// disturb strikes one request, or not.
func (f *fault) disturb(o *op, c *course, ttl int64) {
	switch f.Kind {
	case kindRenewals:
		f.renewals(c)
		return
	case kindBlind:
		c.fails, c.lands = errDown, false
		return
	case kindEdge:
		f.edge(o, c, ttl)
		return
	}
	if !f.roll(f.odds) {
		return
	}
	switch f.Kind {
	case kindSlow:
		c.there += int64(f.number(1000)) * ttl / 2000
		c.gap += int64(f.number(1000)) * ttl / 4000
		c.back += int64(f.number(1000)) * ttl / 2000
	case kindLost:
		c.fails, c.hangs, c.lands = errLost, f.roll(500), f.roll(500)
	case kindLate:
		if o.writes() {
			c.fails, c.hangs = errLost, f.roll(500)
			c.there += int64(f.number(1000)) * ttl * 4 / 1000
		}
	case kindRefused:
		c.fails, c.lands = bucket.NotApplied(errors.New("403 forbidden")), false
	case kindThrottled:
		c.fails, c.lands = pickError(f, bucket.ErrThrottled, errDown), false
	case kindContended:
		if o.writes() {
			c.fails, c.lands = bucket.ErrContended, false
		}
	}
}

func pickError(f *fault, of ...error) error { return of[f.number(len(of))] }

// edge makes the renewals of one node fail until most of its authority is used up.
// Others can read its lease only then, and it changes between the moment at which
// it is read and the stamp of the answer.
func (f *fault) edge(o *op, c *course, ttl int64) {
	w := o.p.w
	p := w.machines[f.Machine].proc
	if p == nil || o.key != wire.LeaseKey(p.id()) {
		return
	}
	age := (w.t - p.watch.landed) * 100 / ttl
	switch {
	case o.verb == "replace" && age < int64(82+f.mode%10):
		c.fails, c.lands = bucket.NotApplied(errDown), false
	case o.verb == "get" && o.class == classLease && age < int64(72+f.mode%10):
		c.fails, c.lands = errDown, false
	case o.verb == "get" && o.class == classLease:
		c.gap += int64(400+f.number(95)) * ttl / 1000
	}
}

// renewals is one of the ways in which lease traffic fails, the same throughout.
func (f *fault) renewals(c *course) {
	switch f.mode % 5 {
	case 0:
		c.hangs, c.lands = true, false
	case 1:
		c.fails, c.lands = errDown, false
	case 2:
		c.fails = errLost // applied
	case 3:
		c.hangs = true // applied
	default:
		c.fails, c.lands = bucket.ErrContended, false
	}
}

// spoilLease is an operator who deletes a lease record, or overwrites it.
func (s *store) spoilLease(f *fault, p *proc) {
	if p == nil || p.id() == "" {
		return
	}
	key := wire.LeaseKey(p.id())
	if f.Kind == kindLease {
		s.overwrite(key, nil)
		return
	}
	s.overwrite(key, fmt.Appendf(nil, `{"node":%q,"ttl_ms":10000}`, p.id()))
	s.spoiled[key] = true
}

// spoilOwner replaces an ownership record by one that lacks a field.
func (s *store) spoilOwner(f *fault) {
	if s.w.cfg.Cells == 0 {
		return
	}
	key := wire.OwnerKey(s.w.cell(s.w.clients.someCell(f.number, s.w)))
	old, err := s.mem.Get(context.Background(), key)
	if err != nil || s.spoiled[key] {
		return
	}
	o, err := wire.DecodeOwner(old.Body)
	if err != nil {
		return
	}
	body := fmt.Appendf(nil, `{"epoch":%d}`, o.Epoch)
	if f.mode%2 == 0 {
		body = fmt.Appendf(nil, `{"node":%q}`, o.Node)
	}
	s.overwrite(key, body)
	s.spoiled[key] = true
}

// overwrite is no node's write, and not judged.
func (s *store) overwrite(key string, body []byte) {
	ctx := context.Background()
	s.w.logf("operator: %s = %s", key, body)
	old, err := s.mem.Get(ctx, key)
	switch {
	case body == nil:
		_ = s.mem.Delete(ctx, key) // it may be gone already
	case err != nil:
		_, _ = s.mem.Create(ctx, key, body) // absent: checked above, in one goroutine
	default:
		_, _ = s.mem.Replace(ctx, key, body, old.Version)
	}
}
