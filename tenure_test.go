package tenure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure"
)

// start begins a node over the bucket in dir and waits until it holds its
// lease.
func start(t *testing.T, dir, name string, change ...func(*tenure.Config)) *tenure.Node {
	t.Helper()
	cfg := tenure.Config{
		Bucket: "sqlite:" + filepath.Join(dir, "fleet.db"), Name: name, LeaseTTL: 2 * time.Second,
		Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	n, err := tenure.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, n) })
	select {
	case <-n.Ready():
	case <-n.Done():
		t.Fatalf("%s ended: %v", name, n.Err())
	case <-time.After(20 * time.Second):
		t.Fatalf("%s is not ready", name)
	}
	return n
}

func stop(t *testing.T, n *tenure.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		t.Errorf("shutdown of %s: %v", n.ID(), err)
	}
}

func TestAcquire(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	a, b := start(t, dir, "a"), start(t, dir, "b")

	own, err := a.Acquire(ctx, "billing")
	if err != nil {
		t.Fatal(err)
	}
	if own.Epoch() != 1 || own.Context().Err() != nil {
		t.Errorf("epoch %d, context %v", own.Epoch(), own.Context().Err())
	}
	if err := own.Verify(ctx); err != nil {
		t.Errorf("verify: %v", err)
	}
	if l, err := b.Locate(ctx, "billing"); err != nil || l.Node != a.ID() || l.Epoch != 1 || l.Local || l.Addr != a.Addrs().Peer {
		t.Errorf("located %+v, %v", l, err)
	}
	var e *tenure.Error
	if _, err := b.TryAcquire(ctx, "billing"); !errors.As(err, &e) || e.Code != tenure.CodeOwned || e.Owner != a.ID() {
		t.Errorf("TryAcquire of an owned cell: %v", err)
	}

	got := make(chan *tenure.Ownership)
	go func() {
		o, err := b.Acquire(ctx, "billing")
		if err != nil {
			t.Error(err)
		}
		got <- o
	}()
	if err := own.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(own.Context()); !errors.Is(cause, tenure.ErrReleased) {
		t.Errorf("the context ended with %v", cause)
	}
	second := <-got
	if second == nil || second.Epoch() != 2 {
		t.Fatalf("b got %+v", second)
	}
	if err := own.Verify(ctx); !errors.As(err, &e) || e.Owner != b.ID() || e.Epoch != 2 {
		t.Errorf("verify of a lost ownership: %v", err)
	}
	if err := second.Release(ctx); err != nil {
		t.Error(err)
	}
}

// A drain takes owned cells back, and waits for their owners.
func TestDrainEndsOwnership(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	a, b := start(t, dir, "a"), start(t, dir, "b")
	own, err := a.Acquire(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-own.Context().Done()
		if cause := context.Cause(own.Context()); !errors.Is(cause, tenure.ErrDrained) {
			t.Errorf("the ownership ended with %v", cause)
		}
		own.Release(context.Background())
	}()
	stop(t, a)
	if l, err := b.Locate(ctx, "x"); err != nil || l.Node != "" || l.Epoch != 1 {
		t.Errorf("located %+v, %v", l, err)
	}
	if o, err := b.TryAcquire(ctx, "x"); err != nil || o.Epoch() != 2 {
		t.Errorf("got %+v, %v", o, err)
	} else if err := o.Release(ctx); err != nil {
		t.Error(err)
	}
	if _, err := a.Acquire(ctx, "x"); err == nil {
		t.Error("a node that is over acquired a cell")
	}
}

func TestAcquireGivesUp(t *testing.T) {
	dir := t.TempDir()
	a, b := start(t, dir, "a"), start(t, dir, "b")
	own, err := a.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Release(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.Acquire(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	var e *tenure.Error
	if _, err := b.Acquire(t.Context(), "a/b"); !errors.As(err, &e) || e.Code != tenure.CodeBadCellName {
		t.Errorf("got %v", err)
	}
}

// rooms is a Host that notes what happens to its cells.
type rooms struct {
	mu   sync.Mutex
	seen []string
}

func (h *rooms) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, fmt.Sprintf(format, args...))
}

func (h *rooms) Activate(_ context.Context, a tenure.Activation) (http.Handler, error) {
	if a.Cell == "broken" {
		return nil, errors.New("out of order")
	}
	h.note("%s begins at %d", a.Cell, a.Epoch)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s at %s", r.Method, r.URL.Path, r.Header.Get("Tenure-Epoch"))
	}), nil
}

func (h *rooms) Deactivate(_ context.Context, d tenure.Deactivation) {
	h.note("%s ends at %d: %s", d.Cell, d.Epoch, d.Reason)
}

func TestHost(t *testing.T) {
	dir := t.TempDir()
	host := new(rooms)
	a := start(t, dir, "a", func(c *tenure.Config) { c.Host = host })
	b := start(t, dir, "b", func(c *tenure.Config) { c.Host = new(rooms) })
	for _, n := range []*tenure.Node{a, b, a} {
		if status, body, node := ask(n, "GET", "/cells/room-1/hello"); status != 200 || body != "GET /hello at 1" || node != a.ID() {
			t.Errorf("%s: %d %s from %s", n.ID(), status, body, node)
		}
	}
	if status, body, _ := ask(a, "GET", "/cells/broken/"); status != http.StatusBadGateway {
		t.Errorf("a cell that does not activate: %d %s", status, body)
	}
	stop(t, a)
	if want := "[room-1 begins at 1 room-1 ends at 1: drain]"; fmt.Sprint(host.without("broken")) != want {
		t.Errorf("the host saw %v, want %s", host.seen, want)
	}
	if status, body, node := ask(b, "POST", "/cells/room-1/"); status != 200 || body != "POST / at 2" || node != b.ID() {
		t.Errorf("after the drain: %d %s from %s", status, body, node)
	}
}

func (h *rooms) without(cell string) (seen []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.seen {
		if len(s) < len(cell) || s[:len(cell)] != cell {
			seen = append(seen, s)
		}
	}
	return seen
}

// ask sends a request through the node's handler, over a real connection.
func ask(n *tenure.Node, method, path string) (status int, body, node string) {
	s := httptest.NewServer(n.Handler())
	defer s.Close()
	req, err := http.NewRequest(method, s.URL+path, nil)
	if err != nil {
		return 0, err.Error(), ""
	}
	res, err := s.Client().Do(req)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error(), ""
	}
	return res.StatusCode, string(b), res.Header.Get("Tenure-Node")
}

func TestConfigErrors(t *testing.T) {
	dir := t.TempDir()
	db := "sqlite:" + filepath.Join(dir, "fleet.db")
	for name, c := range map[string]tenure.Config{
		"no bucket":        {},
		"unknown scheme":   {Bucket: "ftp://x"},
		"not yet":          {Bucket: "gs://x"},
		"unknown option":   {Bucket: "s3://x?regoin=y"},
		"credentials":      {Bucket: "s3://key:secret@x"},
		"host and app":     {Bucket: db, Host: new(rooms), App: "http://127.0.0.1:1"},
		"short TTL":        {Bucket: db, LeaseTTL: time.Millisecond},
		"open admin":       {Bucket: db, AdminListen: "0.0.0.0:0"},
		"every interface":  {Bucket: db, PeerListen: "0.0.0.0:0"},
		"a route to come":  {Bucket: db, Route: "header:Tenure-Cell"},
		"bad app":          {Bucket: db, App: "tcp://x"},
		"long zone":        {Bucket: db, Zone: strings.Repeat("z", 300)},
		"tab in the name":  {Bucket: db, Name: "a\tb"},
		"no peer port":     {Bucket: db, Advertise: "127.0.0.1:0"},
		"named peer port":  {Bucket: db, Advertise: "localhost:https"},
		"a folder":         {Bucket: "sqlite:" + dir},
		"an address twice": {Bucket: db, Listen: "127.0.0.1:99999"},
	} {
		c.Log = slog.New(slog.DiscardHandler)
		n, err := tenure.Start(t.Context(), c)
		if err == nil {
			stop(t, n)
			t.Errorf("%s: no error", name)
		} else if len(err.Error()) < 20 {
			t.Errorf("%s: %q says too little", name, err)
		}
	}
}

// A socket that a killed process left behind is taken over; one that is served
// is not.
func TestAdminSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	socket := func(c *tenure.Config) { c.AdminListen = "unix:" + path }
	n := start(t, t.TempDir(), "a", socket)
	if got := n.Addrs().Admin; got != "unix:"+path {
		t.Errorf("it listens at %q", got)
	}
	cfg := tenure.Config{Bucket: "sqlite:" + filepath.Join(t.TempDir(), "fleet.db"), Log: slog.New(slog.DiscardHandler)}
	socket(&cfg)
	if n, err := tenure.Start(t.Context(), cfg); err == nil {
		stop(t, n)
		t.Error("two nodes listen at one socket")
	}
}

func TestMetrics(t *testing.T) {
	n := start(t, t.TempDir(), "a", func(c *tenure.Config) { c.AdminListen = "127.0.0.1:0"; c.Zone = `a "zone"` })
	own, err := n.Acquire(t.Context(), "billing")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Release(t.Context())
	resp, err := http.Get("http://" + n.Addrs().Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	for _, want := range []string{
		`tenure_node_info{node="` + n.ID() + `",name="a",zone="a \"zone\"",fleet="`, "\ntenure_node_ready 1\n",
		"\n" + `tenure_cells{state="owned"} 1` + "\n", "\ntenure_lease_authority_seconds 1",
		"\n" + `tenure_bucket_requests_total{bucket="bucket",operation="create",key="owner",outcome="ok"} 1` + "\n",
		"\n" + `tenure_bucket_requests_total{bucket="bucket",operation="create",key="probe",outcome="rejected"} 1` + "\n",
		"\n" + `tenure_bucket_requests_total{bucket="lease-bucket",operation="create",key="lease",outcome="ok"} 1` + "\n",
		"\n" + `tenure_bucket_gap_seconds{bucket="lease-bucket"} 0` + "\n",
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %q in:\n%s", want, body)
		}
	}
}
