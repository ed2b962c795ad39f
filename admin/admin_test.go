package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/core"
)

type fakeNode struct {
	health, ready, err error
	cells              []Cell
	released           string
	drained            bool
	block              bool
}

func (n *fakeNode) Health(ctx context.Context) error {
	if n.block {
		<-ctx.Done()
		return ctx.Err()
	}
	return n.health
}
func (n *fakeNode) Ready(context.Context) error { return n.ready }
func (n *fakeNode) Info(context.Context) (Info, error) {
	return Info{Node: "n-1", Name: "n", AuthorityMS: 9000}, n.err
}
func (n *fakeNode) Cells(_ context.Context, after string, limit int) (Cells, error) {
	var out Cells
	for _, c := range n.cells {
		if c.Cell > after && len(out.Cells) < limit {
			out.Cells = append(out.Cells, c)
		}
	}
	if len(out.Cells) == limit {
		out.Next = out.Cells[limit-1].Cell
	}
	return out, n.err
}
func (n *fakeNode) Cell(_ context.Context, name string) (Cell, error) {
	for _, c := range n.cells {
		if c.Cell == name {
			return c, nil
		}
	}
	return Cell{}, ErrNotFound
}
func (n *fakeNode) Release(_ context.Context, name string) error {
	n.released = name
	return n.err
}
func (n *fakeNode) Drain() { n.drained = true }

func ask(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:9000"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// expect checks the status, and that the body is JSON of the right kind.
func expect(t *testing.T, w *httptest.ResponseRecorder, status int, code string) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	kind := "application/json"
	if code != "" {
		kind = "application/problem+json"
	}
	if w.Code != status || w.Header().Get("Content-Type") != kind || code != "" && body["code"] != code {
		t.Errorf("got %d %s %s, want %d %s", w.Code, w.Header().Get("Content-Type"), w.Body, status, code)
	}
	return body
}

func TestHealth(t *testing.T) {
	n := &fakeNode{}
	h := New(Options{Node: n, Token: "secret"})
	expect(t, ask(h, "GET", "/healthz"), 200, "")
	expect(t, ask(h, "GET", "/readyz", "Host", "anything"), 200, "")
	n.health, n.ready = errors.New("stuck"), Failed{core.Failure{Code: core.CodeDraining, RetryAfter: core.Time(1500 * time.Millisecond)}}
	expect(t, ask(h, "GET", "/healthz"), 503, "unavailable")
	w := ask(h, "GET", "/readyz")
	expect(t, w, 503, "draining")
	if w.Header().Get("Retry-After") != "2" {
		t.Error(w.Header())
	}
	expect(t, ask(h, "POST", "/readyz"), 405, "method-not-allowed")
}

func TestStuckLoopIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expect(t, ask(New(Options{Node: &fakeNode{block: true}}), "GET", "/healthz"), 503, "unavailable")
	})
}

func TestStatus(t *testing.T) {
	n := &fakeNode{}
	h := New(Options{Node: n})
	body := expect(t, ask(h, "GET", "/v1/node"), 200, "")
	if body["node"] != "n-1" || body["authority_left_ms"] != 9000.0 {
		t.Errorf("%v", body)
	}
	n.err = errors.New("gone")
	expect(t, ask(h, "GET", "/v1/node"), 503, "unavailable")
}

func TestCellsPage(t *testing.T) {
	n := &fakeNode{}
	for i := range 5 {
		n.cells = append(n.cells, Cell{Cell: fmt.Sprint("c", i), Epoch: 1, Local: true})
	}
	h := New(Options{Node: n})
	var got []string
	after := ""
	for range 3 {
		body := expect(t, ask(h, "GET", "/v1/cells?limit=2&after="+after), 200, "")
		for _, c := range body["cells"].([]any) {
			got = append(got, c.(map[string]any)["cell"].(string))
		}
		after, _ = body["next"].(string)
	}
	if strings.Join(got, " ") != "c0 c1 c2 c3 c4" || after != "" {
		t.Errorf("%v, next %q", got, after)
	}
	if w := ask(h, "GET", "/v1/cells?after=c4"); strings.TrimSpace(w.Body.String()) != `{"cells":[]}` {
		t.Error(w.Body)
	}
	for _, q := range []string{"limit=0", "limit=1001", "limit=x", "limit=-1", "after=a/b"} {
		expect(t, ask(h, "GET", "/v1/cells?"+q), 400, "bad-request")
	}
}

type listedNode struct {
	fakeNode
	after string
	limit int
}

func (n *listedNode) Nodes(_ context.Context, after string, limit int) (Leases, error) {
	n.after, n.limit = after, limit
	if after != "" {
		return Leases{}, n.err
	}
	age := int64(1500)
	return Leases{Nodes: []Lease{{Node: "a-1", Verdict: "alive", Reason: "r", AgeMS: &age}, {Node: "a-2", Verdict: "unknown"}}, Next: "a-2"}, n.err
}

func TestNodes(t *testing.T) {
	n := &listedNode{}
	h := New(Options{Node: n})
	w := ask(h, "GET", "/v1/nodes?limit=2")
	expect(t, w, 200, "")
	const want = `{"nodes":[{"node":"a-1","verdict":"alive","reason":"r","age_ms":1500,"cells":0,"requests":0},` +
		`{"node":"a-2","verdict":"unknown","reason":"","age_ms":null,"cells":0,"requests":0}],"next":"a-2"}`
	if got := strings.TrimSpace(w.Body.String()); got != want || n.limit != 2 {
		t.Errorf("got %s with limit %d, want %s", got, n.limit, want)
	}
	if w := ask(h, "GET", "/v1/nodes?after=a-2"); strings.TrimSpace(w.Body.String()) != `{"nodes":[]}` || n.after != "a-2" {
		t.Error(w.Body, n.after)
	}
	expect(t, ask(h, "GET", "/v1/nodes?limit=0"), 400, "bad-request")
	n.err = errors.New("gone")
	expect(t, ask(h, "GET", "/v1/nodes"), 503, "unavailable")
	expect(t, ask(New(Options{Node: &fakeNode{}}), "GET", "/v1/nodes"), 501, "not-implemented")
}

func TestCell(t *testing.T) {
	n := &fakeNode{cells: []Cell{{"room:42", "active", "n-1", 3, "127.0.0.1:1", true}}}
	h := New(Options{Node: n})
	w := ask(h, "GET", "/v1/cells/room%3A42")
	expect(t, w, 200, "")
	if got, want := strings.TrimSpace(w.Body.String()), `{"cell":"room:42","phase":"active","owner":"n-1","epoch":3,"addr":"127.0.0.1:1","local":true}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	expect(t, ask(h, "GET", "/v1/cells/other"), 404, "not-found")
	expect(t, ask(h, "GET", "/v1/cells/a%2Fb"), 400, "bad-cell-name")
	expect(t, ask(h, "GET", "/v1/cells/"), 400, "bad-cell-name")
	expect(t, ask(h, "GET", "/v1/cells/%2e%2e"), 400, "bad-cell-name")
}

func TestActions(t *testing.T) {
	n := &fakeNode{}
	h := New(Options{Node: n})
	expect(t, ask(h, "POST", "/v1/cells/room:42/release"), 202, "")
	if n.released != "room:42" {
		t.Error(n.released)
	}
	n.err = Failed{core.Failure{Code: core.CodeOwnerUnreachable, Detail: "no"}}
	expect(t, ask(h, "POST", "/v1/cells/room:42/release"), 503, "owner-unreachable")
	expect(t, ask(h, "POST", "/v1/drain"), 202, "")
	if !n.drained {
		t.Error("not drained")
	}
}

// watched is a node that can only be looked at.
type watched struct{ Node }

func TestActionsThatANodeDoesNotKnow(t *testing.T) {
	h := New(Options{Node: watched{&fakeNode{}}})
	expect(t, ask(h, "POST", "/v1/cells/room:42/release"), 501, "not-implemented")
	expect(t, ask(h, "POST", "/v1/drain"), 501, "not-implemented")
}

func TestPathsAndMethods(t *testing.T) {
	h := New(Options{Node: &fakeNode{}})
	for _, p := range []string{"/nope", "/v1", "/v1/node/", "/v1//cells", "/v1/cells/x/y", "/v1/cells/x/release/", "/healthz/"} {
		expect(t, ask(h, "GET", p), 404, "not-found")
	}
	for p, allow := range map[string]string{"/v1/node": "GET, HEAD", "/v1/nodes": "GET, HEAD", "/metrics": "GET, HEAD", "/v1/cells": "GET, HEAD", "/v1/cells/x": "GET, HEAD"} {
		w := ask(h, "POST", p)
		expect(t, w, 405, "method-not-allowed")
		if w.Header().Get("Allow") != allow {
			t.Errorf("%s: %q", p, w.Header().Get("Allow"))
		}
	}
	for _, p := range []string{"/v1/drain", "/v1/cells/x/release"} {
		w := ask(h, "GET", p)
		expect(t, w, 405, "method-not-allowed")
		if w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: %q", p, w.Header().Get("Allow"))
		}
	}
}

func TestToken(t *testing.T) {
	h := New(Options{Node: &fakeNode{}, Token: "secret"})
	for _, auth := range []string{"", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret"} {
		w := ask(h, "GET", "/v1/node", "Authorization", auth)
		expect(t, w, 401, "unauthorized")
		if w.Header().Get("WWW-Authenticate") == "" {
			t.Error("no WWW-Authenticate")
		}
	}
	expect(t, ask(h, "GET", "/v1/node", "Authorization", "bearer secret", "Host", "tenure.example.com"), 200, "")
	expect(t, ask(h, "GET", "/nope"), 401, "unauthorized")
}

func TestGuardWithoutToken(t *testing.T) {
	n := &fakeNode{}
	h := New(Options{Node: n})
	for _, host := range []string{"localhost", "localhost:9", "127.0.0.1", "127.1.2.3:80", "[::1]:9", "[::1]", "LOCALHOST:1"} {
		expect(t, ask(h, "GET", "/v1/node", "Host", host), 200, "")
	}
	for _, host := range []string{"evil.example.com", "evil.example.com:9", "10.0.0.1", "localhost.evil.com", "", "127.0.0.1.evil.com"} {
		expect(t, ask(h, "GET", "/v1/node", "Host", host), 403, "forbidden")
	}
	for _, header := range [][]string{
		{"Origin", "https://evil.example.com"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"},
	} {
		expect(t, ask(h, "POST", "/v1/drain", header...), 403, "forbidden")
	}
	if n.drained {
		t.Error("drained by a stranger's page")
	}
	expect(t, ask(h, "POST", "/v1/drain", "Sec-Fetch-Site", "same-origin"), 202, "")
	expect(t, ask(h, "POST", "/v1/drain", "Origin", "http://127.0.0.1:9000"), 202, "")
}

func TestUnixListenerTakesAnyHost(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: New(Options{Node: &fakeNode{}})}
	go s.Serve(l)
	defer s.Close()
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.Addr().String())
	}}}
	defer c.CloseIdleConnections()
	res, err := c.Get("http://whatever/v1/node")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Error(res.StatusCode)
	}
}
