//go:build unix

package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	wire "github.com/tenure-go/tenure/bucket/buckettest/proxy"
)

// TestCostOnTheWire counts requests where they are paid for.
func TestCostOnTheWire(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		if p.endpoint == "" {
			t.Skip("nobody counts requests to a file")
		}
		through, x := p.counted(t)
		n := startFleet(t, through, 1).nodes[0]
		t.Logf("on the wire, from the start until the lease is held: %d gets, %d lists, %d writes",
			x.Count(wire.And(wire.Reads, not(list))), x.Count(wire.And(wire.Reads, list)), x.Count(wire.Writes))

		until(time.Now().Add(10500 * time.Millisecond)) // the first look for records of dead nodes is over

		const cells = 20
		x.Reset()
		for _, cell := range cellNames("cost", cells) {
			if a := request(t, "POST", n.ready.Listen, cell, ""); !a.ok() {
				t.Fatal(a)
			}
		}
		gets, lists := x.Count(wire.And(wire.Reads, named("cells"), not(list))), x.Count(wire.And(wire.Reads, list))
		puts := x.Count(wire.And(wire.Writes, created("cells")))
		t.Logf("on the wire, for %d first claims: %d gets, %d lists, %d writes", cells, gets, lists, puts)
		// fake-gcs-server does not say what its 404 is about, so it is asked for a list.
		if gets != cells || puts != cells || lists > 0 && len(p.proxied) == 0 || lists > cells {
			t.Errorf("%d claims cost %d gets, %d lists and %d writes", cells, gets, lists, puts)
		}

		n.awaitRenewal(t, p)
		x.Reset()
		until(time.Now().Add(3 * ttl))
		reads, writes := x.Count(wire.And(wire.Reads, not(sweeping))), x.Count(wire.And(wire.Writes, not(sweeping)))
		t.Logf("on the wire, in 3 TTLs with %d idle cells: %d reads, %d writes", cells, reads, writes)
		if reads != 0 || writes < 8 || writes > 12 { // two may be the clean-up's, where a write's name is in its body
			t.Errorf("in 3 TTLs %d reads and %d writes, want 9 lease writes", reads, writes)
		}
	})
}

func named(class string) wire.Predicate {
	return func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/"+class+"/") }
}

// created finds writes whose object's name is in the path, or, as Cloud Storage has
// it, in the body, which is what all writes but a lease's are during claims.
func created(class string) wire.Predicate {
	return func(r *http.Request) bool {
		return named(class)(r) || strings.HasPrefix(r.URL.Path, "/upload/") && r.URL.Query().Get("ifGenerationMatch") == "0"
	}
}

// sweeping is the clean-up, which may take its turn at any time soon after a start.
func sweeping(r *http.Request) bool {
	return list(r) || strings.Contains(r.URL.Path, "sweep.json") || strings.Contains(r.URL.Path, "fleet.json")
}

func list(r *http.Request) bool { return r.URL.Query().Has("prefix") }

func not(p wire.Predicate) wire.Predicate {
	return func(r *http.Request) bool { return !p(r) }
}
