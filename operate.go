package tenure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/tenure-go/tenure/admin"
	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/inspect"
	"github.com/tenure-go/tenure/node"
)

// checkAdmin: whoever reaches the admin address can look at everything.
func checkAdmin(addr, token string) error {
	if addr == "" || strings.HasPrefix(addr, "unix:") || token != "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("admin address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("admin address %q can be reached from other machines: it needs a token", addr)
	}
	return nil
}

func (n *Node) listenAdmin() error {
	if n.cfg.AdminListen == "" {
		return nil
	}
	l, err := n.listen("admin", n.cfg.AdminListen)
	if err != nil {
		return err
	}
	if n.addrs.Admin = l.Addr().String(); strings.HasPrefix(n.cfg.AdminListen, "unix:") {
		n.addrs.Admin = n.cfg.AdminListen
	}
	n.serveHTTP(l, admin.New(admin.Options{Node: operator{n}, Token: n.cfg.AdminToken}))
	return nil
}

// operator shows a Node to operators.
type operator struct{ n *Node }

func (o operator) Health(ctx context.Context) error {
	err := o.n.node.View(ctx, func(*core.State) {})
	if errors.Is(err, node.ErrPreparing) {
		return nil // the loop has nothing to decide yet; readyz says so
	}
	return err
}

func (o operator) Ready(ctx context.Context) error {
	var held, draining bool
	err := o.n.node.View(ctx, func(s *core.State) { held, draining = s.Held(), s.Draining() })
	status := o.n.node.Status()
	switch {
	case errors.Is(err, node.ErrPreparing) && status.LeaseErr != nil:
		return fmt.Errorf("%w: %w", err, status.LeaseErr)
	case err != nil:
		return err
	case draining:
		return errors.New("draining")
	case status.LeaseErr != nil:
		return fmt.Errorf("the last lease operation failed: %w", status.LeaseErr)
	case !held:
		return errors.New("the node does not hold its lease yet")
	}
	if err := o.n.node.CheckCells(ctx); err != nil {
		return fmt.Errorf("the bucket of the cells does not answer: %w", err)
	}
	return nil
}

// Drain begins to give everything up; the process that serves the node notices
// by Node.Done.
func (o operator) Drain() { o.n.node.Drain() }

func (o operator) Info(ctx context.Context) (admin.Info, error) {
	n, st := o.n, o.n.node.Status()
	i := admin.Info{
		Node: n.ID(), Name: n.cfg.Name, Zone: n.cfg.Zone, Fleet: st.Fleet,
		Version: Version(), Protocol: PeerProtocol, Listen: n.addrs.Listen, Peer: n.addrs.Peer,
		AuthorityMS: st.Authority.Milliseconds(), RenewalMarginMS: st.Margin.Milliseconds(),
	}
	if st.HasStoreOffset {
		ms := st.StoreOffset.Milliseconds()
		i.StoreClockMS = &ms
	}
	if st.LeaseErr != nil {
		i.StoreError = st.LeaseErr.Error()
	}
	err := n.node.View(ctx, func(s *core.State) {
		c := s.Counts()
		i.Ready, i.Draining = s.Held() && !s.Draining(), s.Draining()
		i.Owned, i.Resolving, i.Leaving, i.Routes = c.Owned, c.Resolving, c.Leaving, c.Routes
		i.Waiting, i.Requests, i.Peers, i.Dead = c.Waiting, c.Requests, c.Peers, c.Dead
	})
	if err != nil && !errors.Is(err, node.ErrPreparing) {
		return admin.Info{}, err // i may still be written to
	}
	return i, nil
}

// Nodes says what the bucket has of all nodes.
func (o operator) Nodes(ctx context.Context, after string, limit int) (admin.Leases, error) {
	fleet := inspect.Fleet{Cells: o.n.buckets.cells, Leases: o.n.buckets.leases}
	page, err := fleet.Nodes(ctx, after, limit)
	if err != nil {
		return admin.Leases{}, err
	}
	leases := admin.Leases{Next: page.Next}
	for _, n := range page.Nodes {
		leases.Nodes = append(leases.Nodes, admin.Lease{
			Node: n.Node, Verdict: string(n.Verdict), Reason: n.Reason, AgeMS: n.AgeMS, TTLMS: n.TTLMS, Seq: n.Seq,
			Name: n.Name, Zone: n.Zone, Addr: n.Addr, Protocol: n.Protocol,
			Cells: n.Cells, Requests: n.Requests, Draining: n.Draining, Removal: n.Removal,
		})
	}
	return leases, nil
}

// Cell says what the bucket has, and what this node is doing with the cell.
func (o operator) Cell(ctx context.Context, name string) (admin.Cell, error) {
	l, err := o.n.Locate(ctx, name)
	var e *Error
	switch {
	case errors.As(err, &e) && e.Code == CodeBadCellName:
		return admin.Cell{}, fmt.Errorf("%w: %s", admin.ErrBadName, e.Detail)
	case err != nil:
		return admin.Cell{}, err
	}
	c := admin.Cell{Cell: name, Owner: l.Node, Epoch: l.Epoch, Addr: l.Addr, Phase: "unowned"}
	switch {
	case l.Local:
		c.Phase = "not served" // unless the core says more
	case l.Node != "":
		c.Phase = "remote"
	}
	err = o.n.node.View(ctx, func(s *core.State) {
		if v, ok := s.Cell(core.CellName(name)); ok {
			c.Phase, c.Local = v.Phase, v.Local
		}
	})
	if err != nil && !errors.Is(err, node.ErrPreparing) {
		return admin.Cell{}, err // c may still be written to
	}
	return c, nil
}

// Cells reads the record of each cell on the page, a few at a time.
func (o operator) Cells(ctx context.Context, after string, limit int) (admin.Cells, error) {
	if after != "" {
		if err := core.CellName(after).Check(); err != nil {
			return admin.Cells{}, fmt.Errorf("%w: %w", admin.ErrBadName, err)
		}
	}
	page, err := o.n.node.List(ctx, after, limit)
	if err != nil {
		return admin.Cells{}, err
	}
	cells := make([]admin.Cell, len(page.Cells))
	turns := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i, name := range page.Cells {
		turns <- struct{}{}
		wg.Go(func() {
			cells[i] = o.row(ctx, name)
			<-turns
		})
	}
	wg.Wait()
	return admin.Cells{Cells: cells, Next: page.Next}, nil
}

// row is a line of the list; a record that cannot be read is shown as such.
func (o operator) row(ctx context.Context, name core.CellName) admin.Cell {
	c := admin.Cell{Cell: string(name), Phase: "unowned"}
	rec, _, err := o.n.node.Owner(ctx, name)
	switch {
	case err != nil && !errors.Is(err, bucket.ErrNotExist):
		c.Phase = "unreadable"
	case rec.Node != "":
		c.Phase = "remote"
	}
	c.Owner, c.Epoch, c.Local = string(rec.Node), uint64(rec.Epoch), rec.Node != "" && rec.Node == o.n.node.ID()
	if c.Local {
		c.Phase = "owned"
	}
	return c
}
