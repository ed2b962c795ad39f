package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// CellState is what a cell's record says.
type CellState string

// The states.
const (
	CellOwned      CellState = "owned"
	CellReleased   CellState = "released"
	CellNever      CellState = "never owned"
	CellUnreadable CellState = "unreadable"
)

// Cell is one ownership record, with the verdict on its owner.
type Cell struct {
	Cell   string    `json:"cell"`
	State  CellState `json:"state"`
	Owner  string    `json:"owner"`
	Epoch  uint64    `json:"epoch"`
	Addr   string    `json:"addr,omitempty"` // the owner's
	Node   Verdict   `json:"owner_verdict,omitempty"`
	Reason string    `json:"reason"`
}

// Cells is a page of cells. Next, if there is one, is the "after" of the next.
type Cells struct {
	Cells []Cell `json:"cells"`
	Next  string `json:"next,omitempty"`
}

// ListCells reads up to limit cells, in the order of their names, after the given one.
func (f Fleet) ListCells(ctx context.Context, after string, limit int) (Cells, error) {
	ttl, err := f.TTL(ctx)
	if err != nil {
		return Cells{}, err
	}
	if after != "" {
		after = wire.OwnerKey(core.CellName(after))
	}
	names, next, err := page(ctx, f.Cells, wire.CellsPrefix, after, limit, wire.CellOfKey)
	if err != nil {
		return Cells{}, fmt.Errorf("list cells: %w", err)
	}
	cells := Cells{Cells: make([]Cell, len(names)), Next: string(next)}
	each(len(names), func(i int) { cells.Cells[i] = f.cell(ctx, names[i]) })
	f.judgeOwners(ctx, cells.Cells, ttl)
	return cells, ctx.Err()
}

// CheckCell reports why a text is not the name of a cell, or nil.
func CheckCell(name string) error { return core.CellName(name).Check() }

// Cell reads one cell.
func (f Fleet) Cell(ctx context.Context, name string) (Cell, error) {
	ttl, err := f.TTL(ctx)
	if err != nil {
		return Cell{}, err
	}
	one := []Cell{f.cell(ctx, core.CellName(name))}
	f.judgeOwners(ctx, one, ttl)
	return one[0], ctx.Err()
}

func (f Fleet) cell(ctx context.Context, name core.CellName) Cell {
	c := Cell{Cell: string(name)}
	o, err := f.Cells.Get(ctx, wire.OwnerKey(name))
	var rec core.Owner
	if err == nil {
		rec, err = wire.DecodeOwner(o.Body)
	}
	switch {
	case errors.Is(err, bucket.ErrNotExist):
		c.State, c.Reason = CellNever, "there is no record of it"
	case err != nil:
		c.State, c.Reason = CellUnreadable, err.Error()
	case rec.Node == "":
		c.State, c.Reason = CellReleased, "the next request for it claims it"
	default:
		c.State = CellOwned
	}
	c.Owner, c.Epoch = string(rec.Node), uint64(rec.Epoch)
	return c
}

// judgeOwners reads the lease of each owner once.
func (f Fleet) judgeOwners(ctx context.Context, cells []Cell, ttl time.Duration) {
	var owners []string
	for _, c := range cells {
		if c.Owner != "" {
			owners = append(owners, c.Owner)
		}
	}
	slices.Sort(owners)
	owners = slices.Compact(owners)
	nodes := make([]Node, len(owners))
	each(len(owners), func(i int) { nodes[i] = f.node(ctx, core.NodeID(owners[i]), ttl) })
	for i := range cells {
		c := &cells[i]
		if n, found := slices.BinarySearch(owners, c.Owner); found {
			c.Node, c.Addr, c.Reason = nodes[n].Verdict, nodes[n].Addr, "its owner: "+nodes[n].Reason
		}
	}
}
