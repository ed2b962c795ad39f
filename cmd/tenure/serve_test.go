package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure"
)

func TestServeConfig(t *testing.T) {
	p := newTestProgram()
	code := p.background("serve", "--bucket", "s3://b/p", "--lease-bucket", "s3://l", "--listen", ":80",
		"--peer-listen", ":81", "--advertise", "h:81", "--admin-listen", "0.0.0.0:82", "--admin-token", "t",
		"--name", "n", "--zone", "z", "--app", "unix:/x", "--route", "path:/r/{cell}/", "--lease-ttl", "2s",
		"--failover-wait", "3s", "--idle-after", "0s", "--max-cells", "1", "--max-activations", "2",
		"--max-releases", "3", "--max-queue", "4", "--request-timeout", "5s", "--drain-timeout", "6s",
		"--trace", "t.jsonl")
	got := <-p.started
	p.signals <- syscall.SIGINT
	if c := <-code; c != exitDone {
		t.Fatalf("exit code %d: %s", c, p.err)
	}
	got.Log = nil
	want := tenure.Config{
		Bucket: "s3://b/p", LeaseBucket: "s3://l", Listen: ":80", PeerListen: ":81", Advertise: "h:81",
		AdminListen: "0.0.0.0:82", AdminToken: "t", Name: "n", Zone: "z", App: "unix:/x",
		Route: "path:/r/{cell}/", LeaseTTL: 2 * time.Second, FailoverWait: 3 * time.Second, IdleAfter: -1,
		MaxCells: 1, MaxActivations: 2, MaxReleases: 3, MaxQueue: 4,
		RequestTimeout: 5 * time.Second, DrainTimeout: 6 * time.Second, Trace: "t.jsonl",
	}
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
	if strings.Contains(p.err.String(), "demo") {
		t.Errorf("it warns of a demo that it does not serve: %s", p.err)
	}
}

func TestServeWarnsOfTheDemo(t *testing.T) {
	p := newTestProgram()
	code := p.background("serve", "--log-format", "json")
	cfg := <-p.started
	p.signals <- syscall.SIGTERM
	if c := <-code; c != exitDone || cfg.App != "demo" || !strings.Contains(p.err.String(), `"level":"WARN"`) {
		t.Errorf("exit code %d, app %q, stderr %q", c, cfg.App, p.err)
	}
}

func TestReadyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ready.json")
	if err := os.WriteFile(path, []byte("left by one that was killed"), 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := newTestProgram()
		p.node.addrs = tenure.Addrs{Listen: "l:1", Peer: "p:2", Admin: "unix:/a"}
		code := p.background("serve", "--ready-file", path)
		synctest.Wait()
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("there is a ready file before the node is ready: %v", err)
		}
		close(p.node.ready)
		synctest.Wait()
		got := decode(t, path)
		want := map[string]string{"node": p.node.ID(), "listen": "l:1", "peer": "p:2", "admin": "unix:/a"}
		if !maps.Equal(got, want) {
			t.Errorf("it says %v, want %v", got, want)
		}
		p.signals <- syscall.SIGTERM
		if c := <-code; c != exitDone {
			t.Errorf("exit code %d", c)
		}
		p.signals <- syscall.SIGTERM // lets the watcher end
		<-p.exited
	})
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestServeEnds(t *testing.T) {
	for _, c := range []struct {
		name       string
		end, drain error
		code       int
	}{
		{"drained by an operator", nil, nil, exitDone},
		{"fenced", fmt.Errorf("lease record replaced: %w", tenure.ErrFenced), nil, exitFenced},
		{"failed", fmt.Errorf("broken"), nil, exitFailed},
	} {
		p := newTestProgram()
		p.node.fail(c.end)
		if code := p.run([]string{"serve"}); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.code)
		}
		if c.end != nil && strings.Count(p.err.String(), c.end.Error()) != 1 {
			t.Errorf("%s: not said once: %s", c.name, p.err)
		}
	}
}

func TestServeDrainRunsOutOfTime(t *testing.T) {
	p := newTestProgram()
	p.node.drained = fmt.Errorf("2 cells left: %w", tenure.ErrDrainTimeout)
	code := p.background("serve")
	<-p.started
	p.signals <- syscall.SIGTERM
	if c := <-code; c != exitFailed {
		t.Errorf("exit code %d", c)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ready.json")
	p := newTestProgram()
	close(p.node.ready)
	p.node.cfg.Zone = "hang"
	p.background("serve", "--ready-file", path)
	p.signals <- syscall.SIGTERM
	p.signals <- syscall.SIGTERM
	if c := <-p.exited; c != exitFailed {
		t.Errorf("exit code %d", c)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the ready file is still there: %v", err)
	}
}

func TestSignalDuringStart(t *testing.T) {
	p := newTestProgram()
	p.start = func(ctx context.Context, _ tenure.Config) (node, error) {
		p.signals <- syscall.SIGTERM
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if code := p.run([]string{"serve"}); code != exitDone {
		t.Errorf("exit code %d: %s", code, p.err)
	}
}

func TestStartFails(t *testing.T) {
	p := newTestProgram()
	p.start = func(context.Context, tenure.Config) (node, error) { return nil, fmt.Errorf("no such bucket") }
	if code := p.run([]string{"serve"}); code != exitFailed || !strings.Contains(p.err.String(), "no such bucket") {
		t.Errorf("exit code %d: %s", code, p.err)
	}
}
