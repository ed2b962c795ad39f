package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fleetLine is what "up" prints of a child that it started.
var fleetLine = regexp.MustCompile(`(?m)^  (n\d) +http://(\S+) +pid (\d+) +operator http://(\S+)$`)

func newUp(t *testing.T) (p *testProgram, dir string) {
	t.Setenv(asProgram, "1")
	p = newTestProgram()
	p.executable = os.Args[0]
	return p, filepath.Join(t.TempDir(), "fleet")
}

func TestUp(t *testing.T) {
	p, dir := newUp(t)
	code := p.background("up", "--dir", dir)
	for _, n := range []string{"n1", "n2", "n3"} {
		p.out.waitFor(t, n+"   is ready as "+n+"-")
	}
	out := p.out.waitFor(t, "  * mine")
	if strings.Contains(out, "released") {
		t.Errorf("it shows a cell that nobody owns:\n%s", out)
	}
	if !strings.Contains(out, "curl -X POST http://127.0.0.1:") {
		t.Errorf("it does not say how to try it:\n%s", out)
	}
	if ignore, err := os.ReadFile(filepath.Join(dir, ".gitignore")); err != nil || string(ignore) != "*\n" {
		t.Errorf(".gitignore: %q, %v", ignore, err)
	}

	other := newTestProgram()
	if c := other.run([]string{"up", "--dir", dir}); c != exitFailed || !strings.Contains(other.err.String(), "another") {
		t.Errorf("a second fleet in the same folder: exit code %d, %s", c, other.err)
	}

	p.signals <- syscall.SIGINT
	if c := <-code; c != exitDone {
		t.Errorf("exit code %d: %s", c, p.err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.ready")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	for _, m := range fleetLine.FindAllStringSubmatch(out, -1) {
		if c, err := net.Dial("tcp", m[2]); err == nil {
			c.Close()
			t.Errorf("%s still serves", m[1])
		}
	}
}

func TestUpRestartsAChild(t *testing.T) {
	p, dir := newUp(t)
	code := p.background("up", "--dir", dir, "--nodes", "1")
	out := p.out.waitFor(t, "  * mine")
	before := fleetLine.FindStringSubmatch(out)
	// The answer never comes: the process ends.
	if resp, err := http.Get("http://" + before[4] + "/fence"); err == nil {
		resp.Body.Close()
	}
	p.err.waitFor(t, "n1 ended (fenced); starting a new node in 500ms")
	out = p.out.wait(t, "a second life", func(s string) bool {
		return strings.Count(s, "n1   is ready") == 2 && strings.Count(s, "* mine") == 2
	})
	lives := fleetLine.FindAllStringSubmatch(out, -1)
	if len(lives) != 2 || lives[0][3] == lives[1][3] || lives[0][2] != lives[1][2] || lives[0][4] != lives[1][4] {
		t.Errorf("want two processes at the same addresses:\n%s", out)
	}
	p.signals <- syscall.SIGTERM
	if c := <-code; c != exitDone {
		t.Errorf("exit code %d: %s", c, p.err)
	}
}

func TestSecondCtrlCKills(t *testing.T) {
	p, dir := newUp(t)
	t.Setenv("TENURE_ZONE", "hang") // the children get it
	code := p.background("up", "--dir", dir, "--nodes", "2")
	p.out.waitFor(t, "n1   is ready")
	p.out.waitFor(t, "n2   is ready")
	p.signals <- syscall.SIGINT
	p.err.waitFor(t, "draining all nodes")
	p.signals <- syscall.SIGINT
	if c := <-code; c != exitFailed || strings.Count(p.err.String(), "killed") < 2 {
		t.Errorf("exit code %d: %s", c, p.err)
	}
}

func TestUpGivesUpOnBadFlags(t *testing.T) {
	p, dir := newUp(t)
	t.Setenv("TENURE_MAX_QUEUE", "many") // the children get it
	if code := p.run([]string{"up", "--dir", dir}); code != exitUsage || !strings.Contains(p.err.String(), "TENURE_MAX_QUEUE") {
		t.Errorf("exit code %d: %s", code, p.err)
	}
}

func TestNoChildOutlivesUp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a death signal")
	}
	_, dir := newUp(t)
	cmd := exec.Command(os.Args[0], "up", "--dir", dir, "--nodes", "2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var conns []net.Conn
	seen := map[string]bool{}
	for lines := bufio.NewScanner(out); len(conns) < 2 && lines.Scan(); {
		for _, n := range []string{"n1", "n2"} {
			if strings.HasPrefix(lines.Text(), "  "+n+"   is ready") && !seen[n] {
				seen[n] = true
				info, ok := readyFile(filepath.Join(dir, n+".ready")).read()
				if !ok {
					t.Fatalf("%s has no ready file", n)
				}
				conn, err := net.Dial("tcp", info.Admin)
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, conn)
			}
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, conn := range conns {
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); os.IsTimeout(err) {
			t.Error("a child is still there")
		}
	}
	_ = cmd.Wait()
}

func TestChoosePorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	addrs, err := choosePorts([]int{port, 0, 0})
	if err != nil || len(addrs) != 3 {
		t.Fatal(addrs, err)
	}
	seen := map[string]bool{taken.Addr().String(): true}
	for _, a := range addrs {
		if seen[a] {
			t.Errorf("%s twice in %v", a, addrs)
		}
		seen[a] = true
	}
}

func TestPrefixWriter(t *testing.T) {
	var b strings.Builder
	p := &prefixWriter{prefix: "n1 | ", w: &b}
	for _, s := range []string{"a", "b\nc\n", "", "\nlast"} {
		if n, err := p.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	p.flush()
	p.flush()
	if want := "n1 | ab\nn1 | c\nn1 | \nn1 | last\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	b.Reset()
	p.Write([]byte(strings.Repeat("x", maxLine+1)))
	if len(p.rest) != 0 {
		t.Errorf("%d bytes are kept", len(p.rest))
	}
}

func TestTableIsBounded(t *testing.T) {
	var before []owned
	for i := range 30 {
		before = append(before, owned{fmt.Sprintf("c%02d", i), "n1", 1})
	}
	now := append(before[:29:29], owned{"c29", "n2", 2})
	got := table(now, before)
	lines := strings.Split(strings.Trim(got, "\n"), "\n")
	if fields := strings.Fields(lines[1]); strings.Join(fields, " ") != "* c29 n2 2" {
		t.Errorf("what is new does not come first:\n%s", got)
	}
	if len(lines) != 1+tableRows+1 || !strings.Contains(lines[tableRows+1], "10 more") {
		t.Errorf("%d lines:\n%s", len(lines), got)
	}
}

func TestOwnersOfOtherLives(t *testing.T) {
	w := &ownersWatch{now: map[string]string{"n1": "n1-b"}, ever: map[string]string{"n1-a": "n1", "n1-b": "n1"}}
	for id, want := range map[string]string{"n1-b": "n1", "n1-a": "n1 (gone)", "x-c": "x-c"} {
		if got := w.name(id); got != want {
			t.Errorf("%s is shown as %q, want %q", id, got, want)
		}
	}
}
