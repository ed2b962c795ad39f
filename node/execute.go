package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// executor carries effects out. Its methods run with mu held and must not
// block.
type executor struct{ *Node }

// until bounds an operation by an instant of the node's clock.
func (n *Node) until(at core.Time) (context.Context, context.CancelFunc) {
	return n.clock.Until(n.ctx, at)
}

// post hands a completion over.
func (n *Node) post(ev core.Event) { n.send(ev) }

func (x executor) Mint(e core.Mint) {
	x.cfg.Go(func() {
		id, err := wire.NewNodeID(x.cfg.Name, x.cfg.Random)
		if err != nil {
			panic(fmt.Sprintf("node: no randomness: %v", err)) // ids must never come back
		}
		generation, err := wire.NewToken(x.cfg.Random)
		if err != nil {
			panic(fmt.Sprintf("node: no randomness: %v", err))
		}
		x.sendLease(core.Minted{Op: e.Op, Node: id, Generation: generation, Contact: x.cfg.Contact})
	})
}

func (x executor) WriteLease(e core.WriteLease) {
	counts := x.state.Counts()
	rec := wire.LeaseRecord{
		Lease: e.Lease, Name: x.cfg.Name, Zone: x.cfg.Zone,
		ExpiresMS: x.cfg.Wall().Add(time.Duration(e.Lease.TTL)).UnixMilli(),
		Load:      wire.Load{Cells: int64(counts.Owned), MaxCells: int64(x.cfg.MaxCells), Requests: int64(counts.Requests), Draining: x.state.Draining()},
	}
	authority := x.state.AuthorityEnds()
	x.cfg.Go(func() {
		if e.Fresh {
			x.cfg.Lease.Fresh()
		}
		sent := x.clock.Now()
		outcome, w, err := x.write(x.cfg.Lease, wire.LeaseKey(e.Lease.Node), wire.EncodeLease(rec), e.Expect, e.NotAfter, e.Deadline)
		x.noteRenewal(outcome, err, w, sent, authority)
		x.sendLease(core.LeaseWritten{Op: e.Op, Outcome: outcome, Version: core.Version(w.Version), Stamps: stamps(bucket.Stamps{Date: w.Date})})
	})
}

// write is the one way in which a record is written: once, and not after
// authority has ended.
func (n *Node) write(b bucket.Bucket, key string, body []byte, expect core.Version, notAfter, deadline core.Time) (core.WriteOutcome, bucket.Written, error) {
	if notAfter != 0 {
		deadline = min(deadline, notAfter)
	}
	ctx, cancel := n.until(deadline)
	defer cancel()
	err := bucket.Wait(ctx, b)
	if err == nil && n.clock.Now() >= deadline { // the last act before it is sent
		err = errors.New("no authority or time was left to send it")
	}
	if err != nil {
		return core.NotApplied, bucket.Written{}, fmt.Errorf("write %s: %w", key, err)
	}
	var w bucket.Written
	if expect == "" {
		w, err = b.Create(ctx, key, body)
	} else {
		w, err = b.Replace(ctx, key, body, bucket.Version(expect))
	}
	return outcomeOf(w, err), w, err
}

func (x executor) ReadLease(e core.ReadLease) {
	b, send := x.cfg.Leases, x.post
	if e.Own {
		b, send = x.cfg.Lease, x.sendLease
	}
	x.cfg.Go(func() {
		if e.Fresh {
			b.Fresh()
		}
		ctx, cancel := x.until(e.Deadline)
		defer cancel()
		ev := core.LeaseRead{Op: e.Op, Node: e.Node}
		obj, err := b.Get(ctx, wire.LeaseKey(e.Node))
		ev.Version, ev.Stamps = core.Version(obj.Version), stamps(obj.Stamps)
		ev.Outcome = readOutcome(err)
		if ev.Outcome == core.Found {
			var rec wire.LeaseRecord
			if rec, err = wire.DecodeLease(e.Node, obj.Body); err != nil {
				ev.Outcome = core.BadRecord
			}
			ev.Lease = rec.Lease
		}
		x.noteRead("lease of "+string(e.Node), ev.Outcome, err)
		send(ev)
	})
}

func (x executor) ListLeases(e core.ListLeases) {
	x.cfg.Go(func() {
		ctx, cancel := x.until(e.Deadline)
		defer cancel()
		ev := core.LeasesListed{Op: e.Op}
		const most = 10_000 // the core keeps fewer
		for after := ""; len(ev.Nodes) < most; {
			page, err := x.cfg.Leases.List(ctx, wire.NodesPrefix, after, 0)
			if err != nil {
				x.logf(slog.LevelWarn, "the leases could not be listed", "error", err)
				break
			}
			for _, key := range page.Keys {
				if id, ok := wire.NodeOfKey(key); ok {
					ev.Nodes = append(ev.Nodes, id)
				}
			}
			if after = page.Next; after == "" {
				break
			}
		}
		x.post(ev)
	})
}

func (x executor) ReadOwner(e core.ReadOwner) {
	x.cfg.Go(func() {
		ctx, cancel := x.until(e.Deadline)
		defer cancel()
		ev := core.OwnerRead{Op: e.Op, Cell: e.Cell}
		obj, err := x.cfg.Cells.Get(ctx, wire.OwnerKey(e.Cell))
		ev.Version = core.Version(obj.Version)
		ev.Outcome = readOutcome(err)
		if ev.Outcome == core.Found {
			if ev.Owner, err = wire.DecodeOwner(obj.Body); err != nil {
				ev.Outcome = core.BadRecord
			}
		}
		x.noteRead("owner of "+string(e.Cell), ev.Outcome, err)
		if ev.Outcome != core.ReadFailed {
			err = nil
		}
		x.noteCells(err)
		x.post(ev)
	})
}

func (x executor) WriteOwner(e core.WriteOwner) {
	if e.Evidence != nil {
		x.logTakeover(e)
	}
	x.cfg.Go(func() {
		outcome, w, err := x.write(x.cfg.Cells, wire.OwnerKey(e.Cell), wire.EncodeOwner(e.Owner), e.Expect, e.NotAfter, e.Deadline)
		if err != nil && outcome != core.Rejected {
			x.logf(slog.LevelWarn, "an ownership record could not be written", "cell", e.Cell, "epoch", e.Owner.Epoch, "error", err)
			x.noteCells(err)
		}
		x.post(core.OwnerWritten{Op: e.Op, Cell: e.Cell, Outcome: outcome, Version: core.Version(w.Version)})
	})
}

func (x executor) Probe(e core.Probe) {
	x.cfg.Go(func() {
		ctx, cancel := x.until(e.Deadline)
		defer cancel()
		err := x.cfg.Probe(ctx, e.Node, e.Contact)
		if err != nil && x.ctx.Err() == nil {
			x.logf(slog.LevelWarn, "a peer does not answer", "peer", e.Node, "address", e.Contact.Addr, "error", err)
		}
		x.post(core.Probed{Op: e.Op, Node: e.Node, OK: err == nil})
	})
}

func (x executor) Dispatch(e core.Dispatch) { x.deliver(e.ID, e) }
func (x executor) Forward(e core.Forward)   { x.deliver(e.ID, e) }
func (x executor) Answer(e core.Answer)     { x.deliver(e.ID, e) }

func (x executor) Fail(e core.Fail) {
	if c := x.calls[e.ID]; c != nil {
		c.failure.Store(&e)
		c.deliver(e)
		c.cancel(fmt.Errorf("%w: %s", ErrAborted, e.Failure.Code))
	}
}

func (x executor) Abort(e core.Abort) {
	if c := x.calls[e.ID]; c != nil {
		c.cancel(fmt.Errorf("%w: %w", ErrAborted, endOf(e.Reason)))
	}
}

func (x executor) deliver(id core.RequestID, e core.Effect) {
	if c := x.calls[id]; c != nil {
		c.deliver(e)
	}
}

// End logs nothing: whoever waits for Done has the reason from Err, and a fence
// must not wait for a log.
func (x executor) End(e core.End) { x.err = endOf(e.Reason) }
