//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// upChild is one child of "tenure up", as it was last printed.
type upChild struct {
	name, listen string
	pid          int
}

var upLine = regexp.MustCompile(`^\s+(n\d+)\s+http://(\S+)\s+pid (\d+)`)

func upChildren(p *process) map[string]upChild {
	all := map[string]upChild{}
	for _, line := range p.out.lines() {
		if m := upLine.FindStringSubmatch(line); m != nil {
			pid, _ := strconv.Atoi(m[3])
			all[m[1]] = upChild{m[1], m[2], pid}
		}
	}
	return all
}

// TestUp is the first thing that a user does.
func TestUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	up := start(t, "up", nil, "up", "--dir", dir, "--lease-ttl", ttl.String())
	isReady := func(name string, times int) func() bool {
		return func() bool { return len(up.out.with(name+" ", "is ready as")) >= times || !up.running() }
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		eventually(t, startUp, name+" is ready", isReady(name, 1))
	}
	children := upChildren(up)
	if len(children) != 3 {
		t.Fatalf("%d children were printed, want 3", len(children))
	}
	owner := sameOwner(t, children)

	old := children[owner]
	killChild(t, up, old)
	killed := time.Now()
	delete(children, owner)
	moved := awaitMoved(t, children, killed)
	t.Logf("moved to %s at epoch %d, %v after the kill", moved.node, moved.epoch, moved.end.Sub(killed).Round(time.Millisecond))
	eventually(t, startUp, "the killed child is started again", isReady(owner, 2))
	fresh := upChildren(up)[owner]
	if fresh.pid == old.pid || fresh.listen != old.listen {
		t.Errorf("%s was %+v and is now %+v; want another process at the same address", owner, old, fresh)
	}
	if a := request(t, "GET", fresh.listen, "room-1", ""); !a.ok() || a.node != moved.node {
		t.Errorf("through the new child: %v, want it answered by %s", a, moved.node)
	}

	last := upChildren(up)
	up.signal(t, syscall.SIGINT)
	if code := up.exit(t, 15*time.Second); code != 0 {
		t.Errorf("after SIGINT it exited with %d, want 0", code)
	}
	for _, c := range last {
		if syscall.Kill(c.pid, 0) == nil {
			t.Errorf("process %d of %s is still there", c.pid, c.name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".gitignore")); err != nil {
		t.Errorf("the folder is not kept out of git: %v", err)
	}
	p := place{cells: opened(t, "sqlite:"+filepath.Join(dir, "fleet.db"))}
	checkOwnRecord(t, p, "room-1", "", moved.epoch)
}

// sameOwner counts one cell up through every node, and returns the name of the
// child that owns it.
func sameOwner(t *testing.T, children map[string]upChild) string {
	t.Helper()
	var h history
	for _, c := range children {
		h = append(h, request(t, "POST", c.listen, "room-1", ""))
	}
	h.check(t)
	h.checkUndisturbed(t)
	if last := h[len(h)-1]; last.count != int64(len(h)) {
		t.Fatalf("the last of %d: %v", len(h), last)
	}
	owner, _, _ := strings.Cut(h[0].node, "-")
	if _, ok := children[owner]; !ok {
		t.Fatalf("owner %q is none of the children", h[0].node)
	}
	return owner
}

// killChild ends a process that "tenure up" has started and printed.
func killChild(t *testing.T, up *process, c upChild) {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(c.pid) + "/stat")
	if err == nil && !strings.Contains(string(stat), " "+strconv.Itoa(up.pid)+" ") {
		t.Fatalf("process %d is not a child of process %d: %s", c.pid, up.pid, stat)
	}
	if err := syscall.Kill(c.pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %+v: %v", c, err)
	}
}

// awaitMoved asks the other nodes until the cell is served again.
func awaitMoved(t *testing.T, children map[string]upChild, killed time.Time) answer {
	t.Helper()
	var a answer
	if !poll(takeover+4500*time.Millisecond, func() bool {
		for _, c := range children {
			if a = request(t, "POST", c.listen, "room-1", ""); a.ok() {
				return true
			}
			if err := a.explained(); err != nil {
				t.Errorf("%v\n  in: %v", err, a)
			}
		}
		return false
	}) {
		t.Fatalf("not served %v after the kill: %v", time.Since(killed), a)
	}
	if a.epoch != 2 {
		t.Errorf("after one takeover: %v", a)
	}
	return a
}
