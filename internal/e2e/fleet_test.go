//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// node is one "tenure serve", once it is ready.
type node struct {
	*process
	readyPath string
	ready     struct{ Node, Listen, Peer, Admin string }
}

// fleet is nodes over one bucket.
type fleet struct {
	place place
	nodes []*node
}

// startFleet starts the nodes at once, and returns when all are ready.
func startFleet(t *testing.T, p place, nodes int, flags ...string) *fleet {
	t.Helper()
	f := &fleet{place: p}
	for i := range nodes {
		f.nodes = append(f.nodes, startNode(t, p, i, flags...))
	}
	for _, n := range f.nodes {
		n.awaitReady(t)
	}
	return f
}

// startNode starts the fleet's i-th node, on ports that are free.
func startNode(t *testing.T, p place, i int, flags ...string) *node {
	t.Helper()
	return startNodeAt(t, p, i, [3]string{"127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"}, flags...)
}

// startNodeAt starts it at its public, peer and operator's address.
func startNodeAt(t *testing.T, p place, i int, addrs [3]string, flags ...string) *node {
	t.Helper()
	name := fmt.Sprintf("n%d", i+1)
	n := &node{readyPath: filepath.Join(t.TempDir(), "ready")}
	args := append([]string{
		"serve", "--bucket", p.url, "--name", name, "--lease-ttl", ttl.String(), "--ready-file", n.readyPath,
		"--listen", addrs[0], "--peer-listen", addrs[1], "--admin-listen", addrs[2],
	}, flags...)
	n.process = start(t, name, append(skew(i), p.env...), args...)
	return n
}

// skew makes the wall clocks of a fleet's nodes wrong in all directions.
func skew(i int) []string {
	if !skewed {
		return nil
	}
	return []string{"TENURE_TEST_WALL_SKEW=" + []string{"-1h", "0s", "1h"}[i%3]}
}

func (n *node) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, startUp, n.name+" is ready", func() bool { return n.isReady() || !n.running() })
	if !n.running() {
		t.Fatalf("%s ended before it was ready", n.name)
	}
}

// checkSkew wants the lease to have been written by a clock as wrong as it was
// meant to be: else the other tests would prove nothing.
func (n *node) checkSkew(t *testing.T, p place, i int) {
	t.Helper()
	var lease struct {
		Expires int64 `json:"expires_ms"`
	}
	if err := json.Unmarshal([]byte(record(t, p.leases, leaseKey(n.id()))), &lease); err != nil {
		t.Fatal(err)
	}
	var wrong time.Duration
	if env := skew(i); env != nil {
		_, value, _ := strings.Cut(env[0], "=")
		wrong, _ = time.ParseDuration(value)
	}
	if d := time.Until(time.UnixMilli(lease.Expires)) - wrong; d < -time.Minute || d > time.Minute {
		t.Errorf("%s writes %v off, its clock should be %v wrong", n.name, d+wrong, wrong)
	}
}

// isReady reads the ready file, which is there whole or not at all.
func (n *node) isReady() bool {
	body, err := os.ReadFile(n.readyPath)
	return err == nil && json.Unmarshal(body, &n.ready) == nil
}

// id is the node's id, of a node that was ready.
func (n *node) id() string { return n.ready.Node }

// again starts a new node at the addresses of one that has ended.
func (n *node) again(t *testing.T, p place, i int) *node {
	t.Helper()
	return startNodeAt(t, p, i, [3]string{n.ready.Listen, n.ready.Peer, n.ready.Admin})
}

func (f *fleet) addrs() []string { return addrsOf(f.nodes) }

func addrsOf(nodes []*node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.ready.Listen)
	}
	return all
}

// cellNames are names of cells that no other test uses in the same bucket.
func cellNames(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s:%02d", prefix, i))
	}
	return all
}

// claim makes the nodes own the cells in turn, and returns the owner of each.
func (f *fleet) claim(t *testing.T, cells []string) map[string]*node {
	t.Helper()
	owners := map[string]*node{}
	for i, cell := range cells {
		n := f.nodes[i%len(f.nodes)]
		a := request(t, "POST", n.ready.Listen, cell, "")
		if a.status != 200 || a.node != n.id() || a.epoch != 1 {
			t.Fatalf("first request for a cell: %v; want it owned by %s at epoch 1", a, n.id())
		}
		owners[cell] = n
	}
	return owners
}

// ownedBy are the cells of one owner, in order.
func ownedBy(owners map[string]*node, n *node) []string {
	var cells []string
	for cell, owner := range owners {
		if owner == n {
			cells = append(cells, cell)
		}
	}
	slices.Sort(cells)
	return cells
}

// checkOwnRecord wants the record to be exactly that, byte for byte.
func checkOwnRecord(t *testing.T, p place, cell, node string, epoch uint64) {
	t.Helper()
	want := fmt.Sprintf(`{"node":"%s","epoch":%d}`, node, epoch)
	if got := record(t, p.cells, ownKey(cell)); got != want {
		t.Errorf("%s is %q, want %q", ownKey(cell), got, want)
	}
}

// checkAlive wants nodes that were left alone to live.
func checkAlive(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		if !n.running() {
			t.Errorf("%s ended, though nothing was done to it", n.name)
		}
	}
}

// span renders times after an event, for people.
func span(after []time.Duration) string {
	if len(after) == 0 {
		return "none"
	}
	s := slices.Sorted(slices.Values(after))
	return fmt.Sprintf("%d, first %v, median %v, last %v", len(s), s[0].Round(time.Millisecond),
		s[len(s)/2].Round(time.Millisecond), s[len(s)-1].Round(time.Millisecond))
}
