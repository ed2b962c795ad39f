//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/s3server"
)

// renewals are the lease writes that passed a proxy.
type renewals struct {
	mu   sync.Mutex
	at   []time.Time // when each arrived
	seqs []int
}

// watch notes lease writes, and passes everything on.
func (x *renewals) watch(w http.ResponseWriter, r *http.Request, server http.Handler) {
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/nodes/") {
		body, err := io.ReadAll(r.Body)
		var lease struct{ Seq int }
		if err == nil && json.Unmarshal(body, &lease) == nil {
			x.mu.Lock()
			x.at, x.seqs = append(x.at, time.Now()), append(x.seqs, lease.Seq)
			x.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	server.ServeHTTP(w, r)
}

// onTime wants each renewal once, and a third of the TTL after the one before.
func (x *renewals) onTime(t *testing.T, least int, late time.Duration) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	var worst time.Duration
	for i := 1; i < len(x.at); i++ {
		worst = max(worst, x.at[i].Sub(x.at[i-1])-longTTL/3)
		if x.seqs[i] != x.seqs[i-1]+1 {
			t.Errorf("after lease write %d came %d: one was tried again", x.seqs[i-1], x.seqs[i])
		}
	}
	if len(x.at) < least || worst > late {
		t.Errorf("%d renewals, want %d; one was %v late, %v is allowed", len(x.at), least, worst, late)
	}
	t.Logf("%d renewals, the latest %v late", len(x.at), worst.Round(time.Millisecond))
}

// slow delays requests by more than an ownership operation may take.
func slow(next fault) fault {
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		select {
		case <-time.After(3500 * time.Millisecond):
			next(w, r, server)
		case <-r.Context().Done():
		}
	}
}

// TestLeaseLane: ownership traffic is saturated and takes seconds; renewals land on
// time all the same, over the same proxy or in a bucket of their own.
func TestLeaseLane(t *testing.T) {
	long(t)
	t.Run("one bucket", func(t *testing.T) {
		t.Parallel()
		p := openS3(t)
		x := (&proxy{}).start(t, p.server.Endpoint)
		var seen renewals
		slowCells := slow(seen.watch)
		saturate(t, p.through(t, x), x, func(w http.ResponseWriter, r *http.Request, server http.Handler) {
			if strings.Contains(r.URL.Path, "/cells/") {
				slowCells(w, r, server)
				return
			}
			seen.watch(w, r, server)
		}, &seen)
	})
	t.Run("a bucket for the leases", func(t *testing.T) {
		t.Parallel()
		p := openS3(t)
		x, leases := (&proxy{}).start(t, p.server.Endpoint), (&proxy{}).start(t, p.server.Endpoint)
		var seen renewals
		leases.set(seen.watch)
		own := (&s3server.Server{Endpoint: leases.url, Bucket: p.server.Bucket + "/leases"}).URL()
		saturate(t, p.through(t, x), x, slow(seen.watch), &seen, "--lease-bucket", own)
		if got := keys(t, p.cells, "leases/nodes/"); len(got) != 1 {
			t.Errorf("leases in their own bucket: %q", got)
		}
	})
}

// saturate asks a node for more cells than it resolves at once, again and again,
// while everything about cells is slow.
func saturate(t *testing.T, p place, x *proxy, f fault, seen *renewals, flags ...string) {
	t.Helper()
	flags = append([]string{"--lease-ttl", longTTL.String(), "--max-activations", "100", "--request-timeout", "3s"}, flags...)
	n := startFleet(t, p, 1, flags...).nodes[0]
	if a := request(t, "POST", n.ready.Listen, "mine", ""); !a.ok() {
		t.Fatal(a)
	}
	seen.mu.Lock()
	seen.at, seen.seqs = nil, nil
	seen.mu.Unlock()
	x.set(f)
	before := x.cellRequests.Load()
	l := startLoad(t, cellNames("many", 150), []string{n.ready.Listen})
	until(time.Now().Add(2 * longTTL))
	if got := x.cellRequests.Load() - before; got < 100 {
		t.Errorf("%d requests for cells: not saturated", got)
	}
	if a := request(t, "POST", n.ready.Listen, "mine", ""); !a.ok() || a.epoch != 1 {
		t.Errorf("a cell that is owned: %v", a)
	}
	checkMargin(t, n)
	h := l.finish()
	h.check(t)
	seen.onTime(t, 5, 600*time.Millisecond)
	x.set(nil)
	eventually(t, recovery, "a cold cell is served again", func() bool {
		a := request(t, "POST", n.ready.Listen, "late", "")
		return a.ok()
	})
	checkAlive(t, n)
}

// checkMargin: when the last renewal was confirmed, most of the authority before
// it was left.
func checkMargin(t *testing.T, n *node) {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://%s/v1/node", n.ready.Admin))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var info struct {
		Margin int64  `json:"renewal_margin_ms"`
		Error  string `json:"store_error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		t.Fatal(err)
	}
	if margin := time.Duration(info.Margin) * time.Millisecond; margin < longTTL/2 || info.Error != "" {
		t.Errorf("the last renewal left %v of authority, store error %q", margin, info.Error)
	}
	t.Logf("the last renewal left %dms of authority", info.Margin)
}
