package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
)

// problem reads a problem document and checks its form.
func problem(t *testing.T, res *http.Response) Problem {
	t.Helper()
	h := res.Header
	if h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d is no problem document: %v %s", res.StatusCode, h, readAll(t, res.Body))
	}
	for k := range h {
		if hasPrefix(k, oursPeer) {
			t.Errorf("%s reached the client", k)
		}
	}
	var p Problem
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if p.Status != res.StatusCode || p.Title == "" || p.Type == "" {
		t.Errorf("incomplete: %+v", p)
	}
	return p
}

func TestProblemStatus(t *testing.T) {
	for code, want := range map[core.Code]int{
		"bad-cell-name": 400, "bad-record": 502, "node-unavailable": 503, "draining": 503,
		"store-unavailable": 503, "acquire-failed": 503, "no-capacity": 503, "cell-overloaded": 503,
		"owner-unreachable": 503, "authority-lost": 503, "ownership-unverified": 503,
		"activation-failed": 502, "app-unreachable": 502, "peer-incompatible": 502, "owner-unsettled": 502,
		"app-broken": 502, "owner-lost": 502, "timeout": 504, "not-mine": 421, "not-found": 404, "new-one": 500,
	} {
		w := httptest.NewRecorder()
		WriteFailure(w, "c", core.Failure{Code: code, Ran: true, Node: "n", Epoch: 3, Detail: "d"})
		p := problem(t, w.Result())
		want := Problem{p.Type, p.Title, want, "d", code, "c", "n", 3, "unknown"}
		if p != want {
			t.Errorf("got %+v, want %+v", p, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", 1: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90",
	} {
		w := httptest.NewRecorder()
		WriteFailure(w, "c", core.Failure{Code: core.CodeDraining, RetryAfter: core.Time(d)})
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestCoreFailureReachesTheClient(t *testing.T) {
	d := &decider{self: "a-1", plan: func(*call, int) core.Effect {
		return core.Fail{Failure: core.Failure{Code: core.CodeOwnerUnreachable, RetryAfter: core.Time(2500 * time.Millisecond), Node: "b-1", Epoch: 4, Detail: "why"}}
	}}
	s := serveHTTP(t, newGateway(t, d, localOf(nil)))
	res := get(t, s.URL+"/cells/x/")
	p := problem(t, res)
	if p.Code != "owner-unreachable" || p.Cell != "x" || p.Node != "b-1" || p.Epoch != 4 || p.Executed != "no" || res.Header.Get("Retry-After") != "3" {
		t.Errorf("%+v %v", p, res.Header)
	}
	res = do(t, request(t, "HEAD", s.URL+"/cells/x/", nil))
	if res.StatusCode != 503 || readAll(t, res.Body) != "" {
		t.Errorf("HEAD: %d", res.StatusCode)
	}
}
