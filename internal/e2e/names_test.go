//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// badNames are targets, as on the wire, that name no cell.
var badNames = []string{
	"/cells/", "/cells//", "/cells//events", "/cells/?cell=a",
	"/cells/.", "/cells/%2e", "/cells/..", "/cells/../room", "/cells/%2E%2e/room",
	"/cells/" + strings.Repeat("a", 201), "/cells/" + strings.Repeat("a", 5000),
	"/cells/a%2Fb", "/cells/a%2fb/events", "/cells/%2F", "/cells/a%5Cb",
	"/cells/a%00b", "/cells/%00", "/cells/a%0Ab", "/cells/a%20b", "/cells/a+b%7F",
	"/cells/caf%C3%A9", "/cells/caf\u00e9", "/cells/%FF",
	"/cells/a%252Fb", "/cells/a%2500", "/cells/a*b", "/cells/a;b", "/cells/a,b",
}

// noCell are targets where there is no cell at all, or nothing for clients.
var noCell = []string{
	"/", "/cells", "/cell/room", "/Cells/room", "//cells/room",
	"/.tenure/activate", "/cells/room/.tenure/activate", "/cells/room/%2Etenure/deactivate",
	"/cells/room/x/../.tenure/activate", "/cells/room//.tenure", "/cells/room/.tenure%2Factivate",
}

// goodNames need no repair.
var goodNames = []string{
	"a", "A-Z.a_z:0@9+x=y~$", "...", "-", strings.Repeat("n", 200), "own.json",
}

// TestCellNames: a name that is not one is refused at the door, never repaired,
// and the bucket does not hear of it.
func TestCellNames(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		x := &proxy{}
		if p.server != nil {
			p = p.through(t, x.start(t, p.server.Endpoint))
		}
		n := startFleet(t, p, 1).nodes[0]
		for _, target := range badNames {
			wantProblem(t, rawRequest(t, n.ready.Listen, target), 400, "bad-cell-name")
		}
		for _, target := range noCell {
			wantProblem(t, rawRequest(t, n.ready.Listen, target), 404, "not-found")
		}
		if got := keys(t, p.cells, "cells/"); len(got) > 0 {
			t.Errorf("the bucket now has %q", got)
		}
		if got := x.cellRequests.Load(); got > 0 {
			t.Errorf("the bucket was asked %d times about cells", got)
		}
		var want []string
		for _, name := range goodNames {
			if a := rawRequest(t, n.ready.Listen, "/cells/"+name); !a.ok() || a.epoch != 1 {
				t.Errorf("a good name: %v", a)
			}
			want = append(want, ownKey(name))
		}
		// The first letter, encoded, is the same name.
		if a := rawRequest(t, n.ready.Listen, "/cells/%61"); !a.ok() || a.epoch != 1 {
			t.Errorf("a name that need not have been encoded: %v", a)
		}
		if p.server != nil && x.cellRequests.Load() == 0 {
			t.Error("the proxy does not see what the bucket is asked")
		}
		slices.Sort(want)
		if got := keys(t, p.cells, "cells/"); !slices.Equal(got, want) {
			t.Errorf("the bucket has %q, want %q", got, want)
		}
	})
}

func wantProblem(t *testing.T, a answer, status int, code string) {
	t.Helper()
	if a.status != status || a.problem.Code != code || a.problem.Executed != "no" || a.contentType != "application/problem+json" {
		t.Errorf("%.300v; want %d %s, as a problem document with executed \"no\"", a, status, code)
	}
}
