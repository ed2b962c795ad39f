package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// Owner reads a cell's ownership record; found is false if the cell was never
// owned. It claims nothing.
func (n *Node) Owner(ctx context.Context, cell core.CellName) (o core.Owner, found bool, err error) {
	obj, err := n.cfg.Cells.Get(ctx, wire.OwnerKey(cell))
	if errors.Is(err, bucket.ErrNotExist) {
		return o, false, nil
	}
	if err == nil {
		o, err = wire.DecodeOwner(obj.Body)
	}
	if err != nil {
		return o, false, fmt.Errorf("read owner of %s: %w", cell, err)
	}
	return o, true, nil
}

// Lease reads a node's lease; an absent one is an error that wraps
// bucket.ErrNotExist.
func (n *Node) Lease(ctx context.Context, id core.NodeID) (wire.LeaseRecord, error) {
	var rec wire.LeaseRecord
	obj, err := n.cfg.Leases.Get(ctx, wire.LeaseKey(id))
	if err == nil {
		rec, err = wire.DecodeLease(id, obj.Body)
	}
	if err != nil {
		return rec, fmt.Errorf("read lease of %s: %w", id, err)
	}
	return rec, nil
}

// Page is one page of the cells in the bucket.
type Page struct {
	Cells []core.CellName
	// Next continues the listing; empty on the last page.
	Next string
}

// List lists the cells that were ever owned, in byte order, from after a name
// or Page.Next.
func (n *Node) List(ctx context.Context, after string, limit int) (Page, error) {
	if after != "" {
		after = wire.OwnerKey(core.CellName(after))
	}
	for {
		keys, err := n.cfg.Cells.List(ctx, wire.CellsPrefix, after, limit)
		if err != nil {
			return Page{}, fmt.Errorf("list cells: %w", err)
		}
		var p Page
		for _, k := range keys.Keys {
			if name, ok := wire.CellOfKey(k); ok {
				p.Cells = append(p.Cells, name)
			}
		}
		switch {
		case keys.Next == "":
			return p, nil
		case len(p.Cells) > 0:
			p.Next = string(p.Cells[len(p.Cells)-1])
			return p, nil
		}
		after = keys.Next // a page of nothing but strange keys is not the last one
	}
}
