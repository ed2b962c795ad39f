//go:build unix

package e2e

import (
	"database/sql"
	"strings"
	"testing"
)

// TestLongDeadNodes: the records of nodes that are long dead are removed by the
// fleet, and no other.
func TestLongDeadNodes(t *testing.T) {
	p := openSQLite(t)
	startFleet(t, p, 1) // leases in a bucket without a fleet are refused
	dead, gone, bad := "dead-0123456789abcdef", "gone-0123456789abcdef", "bad-0123456789abcdef"
	body := func(id string) string { return strings.ReplaceAll(goodLease, "NODE", id) }
	for id, body := range map[string]string{
		dead: body(dead), gone: strings.ReplaceAll(body(gone), `"seq"`, `"released":true,"seq"`), bad: `{}`,
	} {
		if _, err := p.leases.Create(t.Context(), leaseKey(id), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	f := startFleet(t, p, 2)
	// By the store they are seconds old.
	db, err := sql.Open("sqlite", p.path+"-leases")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n := len(keys(t, p.leases, "nodes/")); n != 6 {
		t.Errorf("%d node records, want 6", n)
	}
	// Now another boot wrote them, in 1970 by its clock; and the last clean-up too.
	if _, err := db.Exec("UPDATE object SET origin = 'another boot' WHERE key IN (?, ?, ?, 'fleet/sweep.json')", leaseKey(dead), leaseKey(gone), leaseKey(bad)); err != nil {
		t.Fatal(err)
	}
	next := startNode(t, p, 3)
	next.awaitReady(t)
	eventually(t, startUp, "the dead nodes' records are removed", func() bool {
		return len(keys(t, p.leases, "nodes/")) == 5
	})
	if record(t, p.leases, leaseKey(bad)) != `{}` {
		t.Error("what is no lease was changed")
	}
	for _, n := range append(f.nodes, next) {
		if record(t, p.leases, leaseKey(n.id())) == "" {
			t.Errorf("%s has no lease", n.name)
		}
	}
	checkAlive(t, append(f.nodes, next)...)
}
