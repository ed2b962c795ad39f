package node_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket/mem"
	"github.com/tenure-go/tenure/node"
)

// Buckets that do not belong together are refused: with the wrong leases a fleet
// would seem dead, with the wrong cells every epoch would begin again.
func TestBucketsOfOneFleet(t *testing.T) {
	for name, c := range map[string]struct {
		cells, leases string // a: the fleet's, b: another fleet's, empty: a new one
		want          string
	}{
		"its own":                {"a", "a", ""},
		"the cells were emptied": {"", "a", "it was emptied"},
		"the leases were":        {"a", "", "is it the right one"},
		"another fleet's leases": {"a", "b", "must be one fleet's"},
		"another fleet's cells":  {"b", "a", "must be one fleet's"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cells, leases := map[string]*mem.Store{}, map[string]*mem.Store{}
				for _, fleet := range []string{"a", "b", ""} {
					cells[fleet], leases[fleet] = mem.NewStore(time.Now), mem.NewStore(time.Now)
				}
				on := func(cells, leases *mem.Store) func(*node.Config) {
					return func(c *node.Config) {
						c.Cells, c.Lease, c.Leases, c.TTL = cells.Open(), leases.Open(), leases.Open(), 0
					}
				}
				f := newFleet(t)
				f.start("first", on(cells["a"], leases["a"]))
				f.start("other", on(cells["b"], leases["b"]))
				n := f.prepare("late", on(cells[c.cells], leases[c.leases]))
				n.Start()
				select {
				case <-n.Ready():
					if c.want != "" {
						t.Error("it was accepted")
					}
				case <-n.Done():
					if err := n.Err(); c.want == "" || !strings.Contains(err.Error(), c.want) {
						t.Errorf("it ended with %v", err)
					}
				}
			})
		})
	}
}
