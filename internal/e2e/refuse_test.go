//go:build unix

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These are starts that cannot succeed. Each must say what is wrong and what to
// do about it, and leave everything as it was.

// mustRefuse runs the program and wants it to end by itself, saying all of
// that.
func mustRefuse(t *testing.T, code int, env, args []string, says ...string) {
	t.Helper()
	p := start(t, "refused", env, args...)
	if got := p.exit(t, startUp); got != code {
		t.Errorf("%q exited with %d, want %d", args, got, code)
	}
	for _, text := range says {
		if !strings.Contains(p.log.text(), text) {
			t.Errorf("%q: stderr does not say %q", args, text)
		}
	}
	if p.out.text() != "" {
		t.Errorf("%q: stdout has %q, want nothing", args, p.out.text())
	}
}

// serveArgs are a node's flags; addresses are free ones unless given.
func serveArgs(p place, more ...string) []string {
	return append([]string{"serve", "--bucket", p.url, "--lease-ttl", ttl.String(), "--listen", "127.0.0.1:0"}, more...)
}

func TestAnotherTTL(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		n := startFleet(t, p, 1).nodes[0]
		before := record(t, p.cells, "fleet/fleet.json")
		mustRefuse(t, 1, p.env, serveArgs(p, "--lease-ttl", "9s"), ttl.String(), "9s", "adopt the fleet's")
		if after := record(t, p.cells, "fleet/fleet.json"); after != before {
			t.Errorf("fleet.json was %s, is %s", before, after)
		}
		if got := keys(t, p.leases, "nodes/"); len(got) != 1 {
			t.Errorf("node leases are %q, want that of %s alone", got, n.id())
		}
		checkAlive(t, n)
	})
}

func TestBusyPort(t *testing.T) {
	p := openSQLite(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().String()
	for _, flag := range []string{"--listen", "--peer-listen", "--admin-listen"} {
		mustRefuse(t, 1, nil, serveArgs(p, flag, busy), busy, "address already in use", "choose another one")
	}
	if got := keys(t, p.leases, ""); len(got) > 0 {
		t.Errorf("a node that cannot listen wrote %q", got)
	}
}

func TestNotADatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notes.txt")
	body := strings.Repeat("These are notes that nobody wants to lose.\n", 200)
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, 1, nil, serveArgs(place{url: "sqlite:" + path}), path, "not an SQLite database", "choose another path")
	after, err := os.ReadFile(path)
	if err != nil || string(after) != body {
		t.Errorf("the file was changed (%v): it has %d bytes, had %d", err, len(after), len(body))
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files beside it: %v, %v; want none", files, err)
	}
}

func TestBucketThatIgnoresConditions(t *testing.T) {
	endpoint, p := fakeS3(t)
	x := (&proxy{unconditional: true}).start(t, endpoint)
	mustRefuse(t, 1, p.env, serveArgs(p.through(t, x)), "must not be used", "create-existing", "Use a store with working conditional writes")
	if left := keys(t, p.cells, ""); len(left) > 0 {
		t.Errorf("in the bucket there is now %q", left)
	}
}

func TestBucketThatAnswersNoSuchKey(t *testing.T) {
	endpoint, p := fakeS3(t)
	x := (&proxy{noSuchKey: true}).start(t, endpoint)
	mustRefuse(t, 1, p.env, serveArgs(p.through(t, x)), "must not be used", "a create of an absent object must succeed", "NoSuchKey", "Use a store with working conditional writes")
	if left := keys(t, p.cells, ""); len(left) > 0 {
		t.Errorf("in the bucket there is now %q", left)
	}
}

func TestReadOnlyBucket(t *testing.T) {
	endpoint, p := fakeS3(t)
	x := (&proxy{readOnly: true}).start(t, endpoint)
	mustRefuse(t, 1, p.env, serveArgs(p.through(t, x)), "must not be used", "AccessDenied", "Check the credentials")
	if left := keys(t, p.cells, ""); len(left) > 0 {
		t.Errorf("in the bucket there is now %q", left)
	}
}

// TestNoSuchBucket: a typing error is said to be one, at once.
func TestNoSuchBucket(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		if p.path != "" {
			p.url, p.env = "sqlite:"+filepath.Join(t.TempDir(), "no-such-folder", "file", "fleet.db"), nil
			if err := os.WriteFile(filepath.Dir(filepath.Dir(strings.TrimPrefix(p.url, "sqlite:"))), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			mustRefuse(t, 1, nil, serveArgs(p), "not a directory")
			return
		}
		p.url = strings.Replace(p.url, "://fleet", "://no-such-bucket", 1)
		mustRefuse(t, 1, p.env, serveArgs(p), "must not be used", "there is no such", "the name of the bucket")
	})
}

// TestTooShortTTL: leases that a store cannot keep up with are refused before
// anything is written.
func TestTooShortTTL(t *testing.T) {
	p := openGCS(t)
	mustRefuse(t, 1, p.env, serveArgs(p, "--lease-ttl", "4s"), "4s", "5s", "too few writes", "another lease bucket")
	if left := keys(t, p.cells, ""); len(left) > 0 {
		t.Errorf("in the bucket there is now %q", left)
	}
}

// TestUnreachableBucket: a bucket that cannot be reached is tried for ever, one
// line per attempt.
func TestUnreachableBucket(t *testing.T) {
	endpoint, p := fakeS3(t)
	x := &proxy{}
	x.start(t, endpoint).down.Store(true)
	n := startNode(t, p.through(t, x), 0, "--admin-listen", freeAddress(t))
	admin := n.flag("--admin-listen")
	eventually(t, startUp, "two attempts", func() bool { return len(n.log.with("trying again")) >= 2 || !n.running() })
	if got := n.log.lines(); len(got) > len(n.log.with("trying again"))+2 { // that it is the demo, and where it listens
		t.Errorf("more than a line per attempt: %q", got)
	}
	for _, want := range []string{x.url, "not ready"} {
		if len(n.log.with("trying again", want)) == 0 {
			t.Errorf("its lines do not say %q", want)
		}
	}
	if s := adminStatus(admin, "/readyz"); s != 503 {
		t.Errorf("readyz is %d, want 503", s)
	}
	if s := adminStatus(admin, "/healthz"); s != 200 {
		t.Errorf("healthz is %d, want 200", s)
	}
	if n.isReady() {
		t.Error("there is a ready file")
	}
	other := startNode(t, p.through(t, x), 1)
	eventually(t, startUp, "an attempt", func() bool { return len(other.log.with("trying again")) >= 1 || !other.running() })
	other.signal(t, syscall.SIGTERM)
	if code := other.exit(t, 3*time.Second); code != 0 {
		t.Errorf("SIGTERM while the bucket is away: exit code %d, want 0", code)
	}
	x.down.Store(false)
	n.awaitReady(t)
	if a := request(t, "POST", n.ready.Listen, "late", ""); !a.ok() || a.epoch != 1 {
		t.Errorf("once the bucket is back: %v", a)
	}
}

// TestHealthWhileTheBucketIsAway: a node whose leases are well, but which cannot
// reach the ownership records, is not ready, and is again without being asked for
// any cell. Its loop turns all the time.
func TestHealthWhileTheBucketIsAway(t *testing.T) {
	endpoint, p := fakeS3(t)
	x := (&proxy{}).start(t, endpoint)
	n := startNode(t, p.through(t, x), 0, "--lease-bucket", p.url)
	n.awaitReady(t)
	if s := n.adminStatus("/readyz"); s != 200 {
		t.Errorf("readyz is %d, want 200", s)
	}
	x.down.Store(true)
	if a := request(t, "POST", n.ready.Listen, "room", ""); a.ok() || a.problem.Code != "store-unavailable" {
		t.Errorf("without the bucket: %v", a)
	}
	before := x.requests.Load()
	for range 20 {
		if s := n.adminStatus("/readyz"); s != 503 {
			t.Fatalf("readyz is %d, want 503", s)
		}
	}
	t.Logf("20 questions cost %d requests to the bucket", x.requests.Load()-before)
	if s := n.adminStatus("/healthz"); s != 200 {
		t.Errorf("healthz is %d, want 200", s)
	}
	x.down.Store(false)
	eventually(t, startUp, "readyz is 200 again", func() bool { return n.adminStatus("/readyz") == 200 })
	if a := request(t, "POST", n.ready.Listen, "room", ""); !a.ok() {
		t.Errorf("once the bucket is back: %v", a)
	}
}

// flag is the last value of a flag that the process was started with.
func (p *process) flag(name string) (value string) {
	for i, arg := range p.cmd.Args[:len(p.cmd.Args)-1] {
		if arg == name {
			value = p.cmd.Args[i+1]
		}
	}
	return value
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestUsage(t *testing.T) {
	p := openSQLite(t)
	for _, test := range []struct {
		env, args []string
		says      string
	}{
		{nil, serveArgs(p, "--no-such-flag"), "--no-such-flag"},
		{nil, serveArgs(p, "--verify", "all"), "--verify"},
		{nil, serveArgs(p, "--lease-ttl", "soon"), "--lease-ttl"},
		{nil, serveArgs(p, "--lease-ttl", "500ms"), "--lease-ttl is 500ms, must be from 1s"},
		{nil, serveArgs(p, "--max-queue", "-1"), "--max-queue is -1"},
		{nil, serveArgs(p, "--admin-listen", "0.0.0.0:0"), "--admin-token"},
		{nil, serveArgs(p, "now"), `"now"`},
		{[]string{"TENURE_DRAIN_TIMEOUT=never"}, serveArgs(p), "TENURE_DRAIN_TIMEOUT"},
		{nil, []string{"server"}, `did you mean "serve"`},
		{nil, nil, "a command is needed"},
	} {
		mustRefuse(t, 2, test.env, test.args, test.says, "--help")
	}
}

// TestBucketURL: a bucket that cannot be opened is the caller's to correct.
func TestBucketURL(t *testing.T) {
	for _, url := range []string{"fleet.db", "ftp://host/fleet", "sqlite:", "s3://", "s3://fleet?regio=eu", "gs://", "gs://fleet?endpoint=x", "az://", "az://fleet?region=x"} {
		mustRefuse(t, 1, nil, serveArgs(place{url: url}), "bucket")
	}
}
