package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket/mem"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/inspect"
	"github.com/tenure-go/tenure/internal/wire"
)

const ttl = 10 * time.Second

// world is a fleet's bucket, to put records into.
type world struct {
	t *testing.T
	*mem.Bucket
	inspect.Fleet
	nodes int
}

func newWorld(t *testing.T) *world {
	b := mem.NewStore(time.Now).Open()
	w := &world{t: t, Bucket: b, Fleet: inspect.Fleet{Cells: b, Leases: b}}
	w.put(wire.FleetKey, wire.EncodeFleet(wire.Fleet{Version: wire.FleetVersion, ID: "f", LeaseTTL: core.Time(ttl)}))
	return w
}

func (w *world) put(key string, body []byte) {
	w.t.Helper()
	if _, err := w.Create(w.t.Context(), key, body); err != nil {
		w.t.Fatal(err)
	}
}

// lease writes one, and returns its node.
func (w *world) lease(change ...func(*wire.LeaseRecord)) core.NodeID {
	w.t.Helper()
	w.nodes++
	rec := wire.LeaseRecord{Lease: core.Lease{
		Node: core.NodeID(fmt.Sprintf("n-%016x", w.nodes)), Generation: "g", Seq: 1, TTL: core.Time(ttl),
	}}
	for _, c := range change {
		c(&rec)
	}
	w.put(wire.LeaseKey(rec.Node), wire.EncodeLease(rec))
	return rec.Node
}

func released(rec *wire.LeaseRecord) { rec.Released = true }
func long(rec *wire.LeaseRecord)     { rec.TTL = core.Time(time.Hour) }

func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := w.lease()
		oldReleased := w.lease(released)
		<-time.After(wire.Retention - 10*time.Minute)
		longLived, shortLived := w.lease(long), w.lease()
		<-time.After(10 * time.Minute)
		late := w.lease()
		<-time.After(10499 * time.Millisecond)
		fresh, gone := w.lease(), w.lease(released)
		w.put("nodes/n-bad.json", []byte("x"))                       // no node's key
		w.put("nodes/o-0000000000000000.json", []byte(`{"node":1}`)) // a node's, and no record
		page, err := w.Nodes(t.Context(), "", 100)
		if err != nil || page.Next != "" {
			t.Fatal(err, page.Next)
		}
		got := map[string]string{}
		for _, n := range page.Nodes {
			got[n.Node] = fmt.Sprint(n.Verdict, " ", n.Removal)
			if n.Reason == "" {
				t.Errorf("%s has no reason", n.Node)
			}
		}
		for id, want := range map[core.NodeID]string{
			old: "expired true", oldReleased: "released true", longLived: "alive false", shortLived: "expired false",
			late: "alive false", fresh: "alive false", gone: "released false", "o-0000000000000000": "unreadable false",
		} {
			if got[string(id)] != want {
				t.Errorf("%s is %q, want %q", id, got[string(id)], want)
			}
		}
		if len(got) != 8 {
			t.Errorf("%d nodes: %v", len(got), got)
		}
		<-time.After(time.Millisecond)
		if page, _ := w.Nodes(t.Context(), string(shortLived), 1); len(page.Nodes) != 1 || page.Nodes[0].Node != string(late) ||
			page.Nodes[0].Verdict != inspect.Expired || page.Next != string(late) {
			t.Errorf("a TTL and slack after its write: %+v", page)
		}
	})
}

func TestPagesGoOnBehindStrangeKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 7 {
			w.put(fmt.Sprintf("nodes/a-%d", i), nil)
			w.put(fmt.Sprintf("cells/a/%d", i), nil)
		}
		id := w.lease()
		for _, cell := range []core.CellName{"x", "y", "z"} {
			w.put(wire.OwnerKey(cell), wire.EncodeOwner(core.Owner{Node: id, Epoch: 3}))
		}
		if page, err := w.Nodes(t.Context(), "", 3); err != nil || len(page.Nodes) != 1 || page.Nodes[0].Node != string(id) {
			t.Errorf("nodes: %+v, %v", page, err)
		}
		var got []string
		for after, pages := "", 0; pages == 0 || after != "" && pages < 10; pages++ {
			page, err := w.ListCells(t.Context(), after, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range page.Cells {
				got = append(got, c.Cell)
			}
			after = page.Next
		}
		if strings.Join(got, " ") != "x y z" {
			t.Errorf("cells %q", got)
		}
	})
}

func TestCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dead := w.lease()
		<-time.After(time.Minute)
		live := w.lease()
		own := func(cell core.CellName, o core.Owner) { w.put(wire.OwnerKey(cell), wire.EncodeOwner(o)) }
		own("a", core.Owner{Node: live, Epoch: 1})
		own("b", core.Owner{Node: dead, Epoch: 2})
		own("c", core.Owner{Epoch: 3})
		own("d", core.Owner{Node: "ghost-0123456789abcdef", Epoch: 4})
		w.put(wire.OwnerKey("e"), []byte(`{"node":""}`))
		page, err := w.ListCells(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range page.Cells {
			got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %d %s %s", c.Cell, c.Epoch, c.State, c.Node), " "))
			if one, err := w.Fleet.Cell(t.Context(), c.Cell); err != nil || one != c || c.Reason == "" {
				t.Errorf("shown alone %+v, listed %+v, %v", one, c, err)
			}
		}
		if want := "a 1 owned alive; b 2 owned expired; c 3 released; d 4 owned absent; e 0 unreadable"; strings.Join(got, "; ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if c, err := w.Fleet.Cell(t.Context(), "nope"); err != nil || c.State != inspect.CellNever {
			t.Errorf("a cell that was never owned: %+v, %v", c, err)
		}
	})
}

func TestNoFleet(t *testing.T) {
	b := mem.New()
	f := inspect.Fleet{Cells: b, Leases: b}
	if _, err := f.Nodes(t.Context(), "", 1); err != inspect.ErrNoFleet {
		t.Error(err)
	}
	if _, err := f.ListCells(t.Context(), "", 1); err != inspect.ErrNoFleet {
		t.Error(err)
	}
}
