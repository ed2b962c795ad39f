package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/mem"
	"github.com/tenure-go/tenure/bucket/s3"
	"github.com/tenure-go/tenure/bucket/sqlite"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/s3server"
	"github.com/tenure-go/tenure/internal/wire"
	"github.com/tenure-go/tenure/node"
)

// claims counts the claims of every cell and epoch: those known to be applied, and
// those without a good answer, which a loaded machine brings about.
type claims struct {
	mu    sync.Mutex
	n     map[string]map[core.Epoch]int
	maybe map[string]map[core.Epoch]int
}

// recorder is a bucket that notes applied claims.
type recorder struct {
	bucket.Bucket
	claims *claims
}

func (r recorder) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	w, err := r.Bucket.Create(ctx, key, body)
	r.note(key, body, err)
	return w, err
}

func (r recorder) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	w, err := r.Bucket.Replace(ctx, key, body, v)
	r.note(key, body, err)
	return w, err
}

func (r recorder) note(key string, body []byte, err error) {
	o, bad := wire.DecodeOwner(body)
	if bad != nil || o.Node == "" || errors.Is(err, bucket.ErrConflict) || errors.Is(err, bucket.ErrNotApplied) {
		return
	}
	r.claims.mu.Lock()
	defer r.claims.mu.Unlock()
	seen := r.claims.n
	if err != nil {
		seen = r.claims.maybe
	}
	if seen[key] == nil {
		seen[key] = map[core.Epoch]int{}
	}
	seen[key][o.Epoch]++
}

// check wants each epoch of a cell to have been claimed once, from the first to the
// last.
func (c *claims) check(t *testing.T, key string) {
	for e := range slices.Max(slices.Collect(maps.Keys(c.n[key]))) {
		n := c.n[key][e+1]
		if n > 1 || n == 0 && c.maybe[key][e+1] == 0 {
			t.Errorf("%s: %d claims of epoch %d were applied", key, n, e+1)
		}
	}
}

// S1 and S2 on real stores: 200 nodes race for 20 cells, which are given up
// again and again.
func TestRaceForCells(t *testing.T) {
	t.Run("mem", func(t *testing.T) {
		s := mem.NewStore(nil)
		raceForCells(t, s.Open(), s.Open(), 40)
	})
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fleet.db")
		raceForCells(t, openSQLite(t, path), openSQLite(t, path+"-leases"), 20)
	})
	t.Run("s3", func(t *testing.T) {
		server := s3server.Start(t)
		raceForCells(t, openS3(t, server), openS3(t, server), 4)
	})
}

func openSQLite(t *testing.T, path string) bucket.Bucket {
	b, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func openS3(t *testing.T, server *s3server.Server) bucket.Bucket {
	b, err := s3.Open(t.Context(), server.Options())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// raceForCells has each node ask for cells so many times.
func raceForCells(t *testing.T, cells, leases bucket.Bucket, asks int) {
	const nodes, names = 200, 20
	seen := &claims{n: map[string]map[core.Epoch]int{}, maybe: map[string]map[core.Epoch]int{}}
	var wg sync.WaitGroup
	for i := range nodes {
		n := startRacer(t, recorder{cells, seen}, leases)
		wg.Go(func() {
			<-n.Ready()
			for k := range asks {
				race(n, cellName((i+k)%names))
			}
		})
	}
	wg.Wait()
	if len(seen.n) != names {
		t.Errorf("%d cells were claimed, want %d", len(seen.n), names)
	}
	for key := range seen.n {
		seen.check(t, key)
	}
}

// race asks for a cell, and gives it up if it was got.
func race(n *node.Node, cell core.CellName) {
	c := n.Begin(context.Background(), node.Request{Cell: cell, Timeout: 20 * time.Second})
	defer c.Done()
	if _, ok := c.Next(context.Background()).(core.Dispatch); ok {
		n.Evict(cell)
	}
}

func startRacer(t *testing.T, cells, leases bucket.Bucket) *node.Node {
	n, err := node.New(node.Config{
		Cells: cells, Lease: leases, Leases: leases, Name: "racer", TTL: time.Minute,
		Contact: core.Contact{Addr: "127.0.0.1:1", Key: fmt.Sprintf("%064x", 1), Protocol: 1},
		Probe:   func(context.Context, core.NodeID, core.Contact) error { return io.EOF },
		Log:     slog.New(slog.DiscardHandler),
		// Else each of the 200 reads the leases of all the others first.
		Limits: func(c *core.Config) { c.MaxPeers = 16 },
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() { n.Drain(); <-n.Done() })
	return n
}
