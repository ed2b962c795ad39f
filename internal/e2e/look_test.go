//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket"
)

// run runs the program to its end, and wants that exit code.
func run(t *testing.T, code int, env []string, args ...string) *process {
	t.Helper()
	p := start(t, args[0], env, args...)
	if got := p.exit(t, startUp); got != code {
		t.Errorf("%q exited with %d, want %d:\n%s%s", args, got, code, p.out.text(), p.log.text())
	}
	return p
}

// runJSON runs it with --json.
func runJSON[T any](t *testing.T, code int, p place, args ...string) (v T) {
	t.Helper()
	out := run(t, code, p.env, append(args, "--bucket", p.url, "--json")...).out.text()
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Errorf("%q printed %q: %v", args, out, err)
	}
	return v
}

type shownNode struct {
	Node, Verdict, Reason, Addr string
	AgeMS                       *int64 `json:"age_ms"`
}

type shownNodes struct {
	Nodes []shownNode
	Next  string
}

type shownCell struct {
	Cell, State, Owner, Reason string
	Epoch                      uint64
	Verdict                    string `json:"owner_verdict"`
}

type shownCells struct {
	Cells []shownCell
	Next  string
}

// TestNodesAndCells: what people are shown is what is in the bucket.
func TestNodesAndCells(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 3)
		cells := cellNames("show", 5)
		owners := f.claim(t, cells)
		dead, drained, live := f.nodes[0], f.nodes[1], f.nodes[2]
		dead.kill(t)
		drained.signal(t, syscall.SIGTERM)
		drained.exit(t, startUp)
		want := map[string]string{dead.id(): "expired", drained.id(): "released", live.id(): "alive"}
		var page shownNodes
		eventually(t, startUp, "the verdicts are right", func() bool {
			page = runJSON[shownNodes](t, 0, p, "nodes")
			got := map[string]string{}
			for _, n := range page.Nodes {
				got[n.Node] = n.Verdict
			}
			return fmt.Sprint(got) == fmt.Sprint(want)
		})
		for _, n := range page.Nodes {
			if n.AgeMS == nil || *n.AgeMS < 0 || *n.AgeMS > 60_000 || n.Reason == "" || n.Addr == "" {
				t.Errorf("shown as %+v", n)
			}
		}
		if got := adminNodes(t, live); len(got.Nodes) != 3 || got.Nodes[0].Node != page.Nodes[0].Node {
			t.Errorf("the operator's list is %+v", got)
		}
		checkPaging(t, p, cells)
		for _, cell := range cells {
			c := runJSON[shownCell](t, 0, p, "cells", "show", cell)
			n := owners[cell]
			if n == drained {
				n = &node{}
			}
			if c.Owner != n.id() || c.Verdict != want[n.id()] || c.Epoch != 1 || c.State != map[bool]string{true: "released", false: "owned"}[n.id() == ""] {
				t.Errorf("shown as %+v, want owner %q", c, n.id())
			}
		}
		x := run(t, 1, p.env, "cells", "show", "nobody", "--bucket", p.url)
		if len(x.log.with("cell nobody", "never owned")) == 0 {
			t.Errorf("a cell that was never owned: %q", x.log.text())
		}
		checkAlive(t, live)
	})
}

// checkPaging goes through both lists, one by one, as the lists say.
func checkPaging(t *testing.T, p place, cells []string) {
	t.Helper()
	var got []string
	for after, pages := "", 0; pages == 0 || after != "" && pages < 20; pages++ {
		page := runJSON[shownCells](t, 0, p, "cells", "list", "--limit", "2", "--after", after)
		for _, c := range page.Cells {
			got = append(got, c.Cell)
		}
		after = page.Next
	}
	if !slices.Equal(got, cells) {
		t.Errorf("listed %q, want %q", got, cells)
	}
	x := run(t, 0, p.env, "nodes", "--limit", "1", "--bucket", p.url)
	first := runJSON[shownNodes](t, 0, p, "nodes", "--limit", "1")
	if len(x.out.lines()) != 2 || len(x.log.with("There are more", "--after '"+first.Next+"'")) != 1 {
		t.Errorf("one node a page: %q, %q", x.out.text(), x.log.text())
	}
}

func adminNodes(t *testing.T, n *node) (page shownNodes) {
	t.Helper()
	resp, err := http.Get("http://" + n.ready.Admin + "/v1/nodes")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil || resp.StatusCode != 200 {
		t.Fatalf("/v1/nodes: %s, %v", resp.Status, err)
	}
	return page
}

type check struct {
	Part, Name, Detail, Answer, Advice string
	OK                                 bool
}

type diagnosis struct {
	OK     bool
	Failed int
	Checks []check
}

// failures are what failed, each by name; all must say what to do.
func (d diagnosis) failures(t *testing.T) []string {
	t.Helper()
	var failed []string
	for _, c := range d.Checks {
		if c.OK {
			continue
		}
		failed = append(failed, c.Part+" "+c.Name)
		if c.Detail == "" || c.Answer == "" || c.Advice == "" {
			t.Errorf("a failure that does not say what was answered and what to do: %+v", c)
		}
	}
	if d.OK != (len(failed) == 0) || d.Failed != len(failed) {
		t.Errorf("ok %v, failed %d, with %q", d.OK, d.Failed, failed)
	}
	return failed
}

func (d diagnosis) find(name string) check {
	for _, c := range d.Checks {
		if c.Name == name {
			return c
		}
	}
	return check{}
}

// TestDiagnoseAFleet: all is well, then a node has died, and a lease is no lease.
func TestDiagnoseAFleet(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		f := startFleet(t, p, 2)
		all := func() []string {
			found := append(keys(t, p.cells, ""), keys(t, p.leases, "")...)
			return slices.DeleteFunc(found, func(k string) bool { return k == "fleet/sweep.json" }) // which comes at any time
		}
		before := all()
		d := runJSON[diagnosis](t, 0, p, "diagnose")
		if failed := d.failures(t); len(failed) > 0 || !d.find(f.nodes[0].id()).OK || !d.find("replace-old").OK || !d.find("times").OK {
			t.Errorf("a healthy fleet: %+v", d)
		}
		readOnly := runJSON[diagnosis](t, 0, p, "diagnose", "--read-only")
		if failed := readOnly.failures(t); len(failed) > 0 || !readOnly.find(f.nodes[1].id()).OK || !readOnly.find("absent").OK || readOnly.find("create").OK {
			t.Errorf("read-only: %+v", readOnly)
		}
		if after := all(); !slices.Equal(after, before) {
			t.Errorf("the bucket had %q, has %q", before, after)
		}
		put(t, p.leases, leaseKey(ghost), `{"node":"`+ghost+`"}`, map[string]bucket.Object{})
		f.nodes[0].freeze(t) // its lease still lives
		d = runJSON[diagnosis](t, 1, p, "diagnose", "--read-only")
		want := []string{"leases " + ghost, "peers " + f.nodes[0].id()}
		if failed := d.failures(t); !slices.Equal(failed, want) || !d.find(f.nodes[1].id()).OK {
			t.Errorf("failed %q, want %q: %+v", failed, want, d)
		}
	})
}

// TestDiagnoseABrokenStore: each is named by the property that does not hold, and
// what comes after it is looked at all the same.
func TestDiagnoseABrokenStore(t *testing.T) {
	ignoresMatch := func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		r.Header.Del("If-Match")
		server.ServeHTTP(w, r)
	}
	wrongTimes := func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		w.Header().Set("Date", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
		server.ServeHTTP(w, r)
	}
	for _, c := range []struct {
		name   string
		proxy  *proxy
		fault  fault
		step   string
		broken bool
		says   []string
	}{
		{"ignores conditions", &proxy{unconditional: true}, nil, "create-existing", true, []string{"accepted the condition and did not apply it", "Use a store with working conditional writes"}},
		{"ignores If-Match", &proxy{}, ignoresMatch, "replace-old", true, []string{"accepted the condition and did not apply it", "Use a store with working conditional writes"}},
		{"no such key to a create", &proxy{noSuchKey: true}, nil, "create", true, []string{"NoSuchKey", "Use a store with working conditional writes"}},
		{"times ten minutes off", &proxy{}, wrongTimes, "times", true, []string{"Date and Last-Modified"}},
		{"read only", &proxy{readOnly: true}, nil, "create", false, []string{"AccessDenied", "the credentials and the region"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			endpoint, p := fakeS3(t)
			n := startFleet(t, p, 1).nodes[0]
			c.proxy.start(t, endpoint).set(c.fault)
			through := p.through(t, c.proxy)
			d := runJSON[diagnosis](t, 1, through, "diagnose")
			found := d.find(c.step)
			if failed := d.failures(t); !slices.Equal(failed, []string{"bucket " + c.step}) || !d.find(n.id()).OK && c.step != "times" {
				t.Errorf("failed %q: %+v", failed, d)
			}
			if strings.Contains(found.Detail, "BROKEN, it must not be used") != c.broken {
				t.Errorf("said: %+v", found)
			}
			for _, want := range c.says {
				if !strings.Contains(found.Answer+found.Advice, want) {
					t.Errorf("it does not say %q: %+v", want, found)
				}
			}
			text := run(t, 1, p.env, "diagnose", "--bucket", through.url)
			if len(text.out.with("FAIL", c.step)) != 1 || len(text.log.with("1 of", "checks failed")) != 1 {
				t.Errorf("in words: %s%s", text.out.text(), text.log.text())
			}
		})
	}
}

// TestDiagnoseAnUnreachableStore fails everywhere, and ends.
func TestDiagnoseAnUnreachableStore(t *testing.T) {
	_, p := fakeS3(t)
	x := (&proxy{}).start(t, "http://"+freeAddress(t))
	x.down.Store(true)
	d := runJSON[diagnosis](t, 1, p.through(t, x), "diagnose")
	if failed := d.failures(t); !slices.Equal(failed, []string{"bucket absent", "fleet fleet/fleet.json", "leases list"}) {
		t.Errorf("failed %q", failed)
	}
	if c := d.find("absent"); !strings.Contains(c.Answer, x.url) || !strings.Contains(c.Advice, "endpoint") {
		t.Errorf("it says %+v", c)
	}
}

// TestDiagnoseMixedUpBuckets: two fleets' buckets are no fleet.
func TestDiagnoseMixedUpBuckets(t *testing.T) {
	one, two := openSQLite(t), openSQLite(t)
	startFleet(t, one, 1)
	startFleet(t, two, 1)
	d := runJSON[diagnosis](t, 1, one, "diagnose", "--lease-bucket", two.url+"-leases")
	if failed := d.failures(t); !slices.Equal(failed, []string{"fleet fleet/fleet.json"}) {
		t.Errorf("failed %q: %+v", failed, d)
	}
}
