package inspect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// leases reads every lease; it returns those of nodes that live.
func (r *reporter) leases(ctx context.Context, ttl time.Duration) (alive []Node) {
	ctx, cancel := context.WithTimeout(ctx, 4*patience) // there may be many
	defer cancel()
	from := time.Now()
	f := Fleet{Cells: r.Cells, Leases: r.Leases}
	count := map[Verdict]int{}
	removal := 0
	for after, first := "", true; first || after != ""; first = false {
		ids, next, err := page(ctx, r.Leases, wire.NodesPrefix, after, 0, wire.NodeOfKey)
		if err != nil {
			r.add(checked("leases", "list", "the leases can be listed", err), from)
			return alive
		}
		nodes := make([]Node, len(ids))
		each(len(ids), func(i int) { nodes[i] = f.node(ctx, ids[i], ttl) })
		for _, n := range nodes {
			count[n.Verdict]++
			switch {
			case n.Verdict == Alive:
				alive = append(alive, n)
			case n.Verdict == Unreadable:
				r.add(Check{
					Part: "leases", Name: n.Node, Detail: "a lease must be readable, and a lease record", Answer: n.Reason,
					Advice: "If it is no record: nobody but its node may write it. Find out who did, and remove it once no cell names that node",
				}, from)
			}
			if n.Removal {
				removal++
			}
		}
		if after = ""; next != "" {
			after = wire.LeaseKey(next)
		}
	}
	r.add(Check{Part: "leases", Name: "read", OK: true, Detail: summary(count, removal)}, from)
	return alive
}

func summary(count map[Verdict]int, removal int) string {
	var parts []string
	for _, v := range []Verdict{Alive, Released, Expired, Unknown, Absent, Unreadable} {
		if n := count[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if removal > 0 {
		parts = append(parts, fmt.Sprintf("%d of them to be removed by the fleet", removal))
	}
	if len(parts) == 0 {
		return "no node has a lease"
	}
	return strings.Join(parts, ", ")
}

// peers probes every node that lives and has an address.
func (r *reporter) peers(ctx context.Context, nodes []Node) {
	checks, took := make([]Check, len(nodes)), make([]time.Duration, len(nodes))
	each(len(nodes), func(i int) {
		from := time.Now()
		checks[i] = r.peer(ctx, nodes[i])
		took[i] = time.Since(from)
	})
	for i, c := range checks {
		r.add(c, time.Now().Add(-took[i]))
	}
}

func (r *reporter) peer(ctx context.Context, n Node) Check {
	c := Check{Part: "peers", Name: n.Node, Detail: n.Reason}
	if n.Addr == "" {
		c.OK, c.Detail = true, "it has no address; "+n.Reason
		return c
	}
	c.Detail = "at " + n.Addr + ", " + n.Reason
	if err := r.Probe(ctx, core.NodeID(n.Node), n.Contact()); err != nil {
		c.Answer = err.Error()
		c.Advice = "If it has just died, its lease expires soon: try again. Otherwise check that its --advertise address is reachable from here, and a firewall between"
		return c
	}
	c.OK = true
	return c
}
