package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-go/tenure"
)

// asProgram makes the test binary the program itself, over fake nodes: "tenure
// up" starts its children from the binary that it is.
const asProgram = "TENURE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	p := &program{
		stdout: os.Stdout, stderr: os.Stderr, lookup: os.LookupEnv,
		signals: signals, exit: os.Exit, executable: os.Args[0], start: startFake,
	}
	os.Exit(p.run(os.Args[1:]))
}

// fakeNode is ready at once, and says that it owns one cell.
type fakeNode struct {
	cfg         tenure.Config
	addrs       tenure.Addrs
	ready, done chan struct{}
	err         error // once done
	drained     error // what Shutdown returns
	end         sync.Once
}

func newFakeNode(cfg tenure.Config) *fakeNode {
	return &fakeNode{cfg: cfg, ready: make(chan struct{}), done: make(chan struct{})}
}

func (n *fakeNode) ID() string             { return fmt.Sprintf("%s-%016x", n.cfg.Name, os.Getpid()) }
func (n *fakeNode) Addrs() tenure.Addrs    { return n.addrs }
func (n *fakeNode) Ready() <-chan struct{} { return n.ready }
func (n *fakeNode) Done() <-chan struct{}  { return n.done }
func (n *fakeNode) Err() error             { return n.err }

func (n *fakeNode) Shutdown(context.Context) error {
	if n.cfg.Zone == "hang" {
		select {}
	}
	n.fail(nil)
	return n.drained
}

func (n *fakeNode) fail(err error) {
	n.end.Do(func() {
		n.err = err
		close(n.done)
	})
}

// startFake really listens, and has the operator's pages that "up" needs.
func startFake(_ context.Context, cfg tenure.Config) (node, error) {
	n := newFakeNode(cfg)
	for addr, bound := range map[string]*string{cfg.Listen: &n.addrs.Listen, cfg.AdminListen: &n.addrs.Admin} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, err
		}
		*bound = l.Addr().String()
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/cells", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"cells":[{"cell":"mine","owner":%q,"epoch":%d},{"cell":"released","owner":"","epoch":1}]}`,
				n.ID(), os.Getpid())
		})
		mux.HandleFunc("GET /fence", func(http.ResponseWriter, *http.Request) {
			n.fail(fmt.Errorf("authority expired: %w", tenure.ErrFenced))
		})
		go http.Serve(l, mux)
	}
	close(n.ready)
	return n, nil
}

// output is a buffer that can be waited for.
type output struct {
	lock    sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{}, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.b.Write(b)
}

func (o *output) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.b.String()
}

func (o *output) wait(t *testing.T, what string, there func(string) bool) string {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		if s := o.String(); there(s) {
			return s
		}
		select {
		case <-o.changed:
		case <-limit:
			t.Fatalf("never saw %s in:\n%s", what, o.String())
		}
	}
}

func (o *output) waitFor(t *testing.T, text string) string {
	t.Helper()
	return o.wait(t, text, func(s string) bool { return strings.Contains(s, text) })
}

// testProgram is a program over a fake node, with what it was configured to.
type testProgram struct {
	*program
	out, err *output
	env      map[string]string
	signals  chan os.Signal
	exited   chan int
	node     *fakeNode
	started  chan tenure.Config
}

func newTestProgram() *testProgram {
	p := &testProgram{
		out: newOutput(), err: newOutput(), env: map[string]string{},
		signals: make(chan os.Signal, 2), exited: make(chan int, 1), started: make(chan tenure.Config, 1),
	}
	p.node = newFakeNode(tenure.Config{Name: "n"})
	p.program = &program{
		stdout: p.out, stderr: p.err,
		lookup:  func(name string) (string, bool) { v, ok := p.env[name]; return v, ok },
		signals: p.signals, exit: func(code int) { p.exited <- code },
		start: func(_ context.Context, cfg tenure.Config) (node, error) {
			p.started <- cfg
			return p.node, nil
		},
	}
	return p
}

// background runs the program; the channel has its exit code.
func (p *testProgram) background(args ...string) <-chan int {
	code := make(chan int, 1)
	go func() { code <- p.run(args) }()
	return code
}

func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"", "a command is needed: cells, check, diagnose, nodes, replay, serve, sim, up, version"},
		{"serv", `unknown command "serv", did you mean "serve"?`},
		{"check --faults crash,earthquake", `"earthquake" is not a kind of fault`},
		{"check --faults crash=0", "must be a number from 1 to 9"},
		{"check --nodes 4", "4 nodes; there can be 1 to 3"},
		{"serve extra", `takes no arguments, but was given "extra"`},
		{"serve --verify all", "unknown flag: --verify"},
		{"serve --app-hooks", "unknown flag: --app-hooks"},
		{"serve --lease-ttl 10", "--lease-ttl"},
		{"serve --lease-ttl 999ms", "must be from 1s"},
		{"serve --lease-ttl 25h", "to 24h"},
		{"serve --lease-ttl 1000000001ns", "whole milliseconds"},
		{"serve --failover-wait -1s", "must not be negative"},
		{"serve --idle-after -1s", "must not be negative"},
		{"serve --request-timeout 0s", "more than 0s"},
		{"serve --drain-timeout 0s", "more than 0s"},
		{"serve --max-cells -1", "at least 0"},
		{"serve --max-queue 0", "at least 1"},
		{"serve --log-format xml", "text, json"},
		{"serve --log-level loud", "debug, info"},
		{"serve --route header:Tenure-Cell", "must be path:/"},
		{"serve --route path:/x/", "must be path:/"},
		{"serve --bucket=", "--bucket must not be empty"},
		{"serve --admin-listen :9090", "--admin-token"},
		{"serve --admin-listen 0.0.0.0:9090", "--admin-token"},
		{"serve --admin-listen 9090", "host:port"},
		{"up --nodes 0", "from 1 to"},
		{"up --lease-ttl 1ms", "from 1s"},
		{"version now", "takes no arguments"},
		{"nodes now", "takes no arguments"},
		{"nodes --limit 0", "from 1 to 1000"},
		{"nodes --bucket=", "--bucket must not be empty"},
		{"cells", "a command is needed: list, show"},
		{"cells lst", `did you mean "list"?`},
		{"cells list --limit 1001", "from 1 to 1000"},
		{"cells show", "the name of one cell is needed"},
		{"cells show a b", "the name of one cell is needed"},
		{"cells show a/b", "cell name"},
		{"diagnose --limit 3", "unknown flag: --limit"},
	} {
		p := newTestProgram()
		if code := p.run(strings.Fields(c.args)); code != exitUsage {
			t.Errorf("%q: exit code %d, want %d", c.args, code, exitUsage)
		}
		if got := p.err.String(); !strings.Contains(got, c.says) || p.out.String() != "" {
			t.Errorf("%q: stderr %q, want %q; stdout %q, want nothing", c.args, got, c.says, p.out)
		}
	}
}

// To look at a fleet makes none.
func TestLookMakesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, args := range []string{"nodes", "cells list", "cells show a", "diagnose", "diagnose --read-only"} {
		p := newTestProgram()
		p.env["TENURE_BUCKET"] = "sqlite:" + dir + "/sub/fleet.db"
		if code := p.run(strings.Fields(args)); code != exitFailed || !strings.Contains(p.err.String(), "there is no fleet in sqlite:") || p.out.String() != "" {
			t.Errorf("%q: exit code %d, stderr %q, stdout %q", args, code, p.err, p.out)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("there is %v, %v", files, err)
	}
}

func TestEnvironment(t *testing.T) {
	p := newTestProgram()
	p.env = map[string]string{
		"TENURE_ZONE": "eu", "TENURE_MAX_CELLS": "7", "TENURE_NAME": "from-env", "TENURE_IDLE_AFTER": "",
		"TENURE_CELL": "c", "TENURE_EPOCH": "x", "TENURE_NODE": "n", "TENURE_LOG_LEVEL": "error",
	}
	code := p.background("serve", "--name", "from-flag")
	cfg := <-p.started
	p.signals <- syscall.SIGTERM
	if c := <-code; c != exitDone {
		t.Fatalf("exit code %d: %s", c, p.err)
	}
	if cfg.Zone != "eu" || cfg.MaxCells != 7 || cfg.Name != "from-flag" || cfg.IdleAfter != 10*time.Minute {
		t.Errorf("the environment gave %+v", cfg)
	}
}

func TestBadEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"TENURE_MAX_CELLS": "many", "TENURE_LEASE_TTL": "1ms", "TENURE_DRAIN_TIMEOUT": "25",
		"TENURE_LOG_FORMAT": "xml",
	} {
		p := newTestProgram()
		p.env[name] = value
		if code := p.run([]string{"serve"}); code != exitUsage || !strings.Contains(p.err.String(), name) {
			t.Errorf("%s=%s: exit code %d, stderr %q", name, value, code, p.err)
		}
	}
}

func TestReservedNamesSetNoFlag(t *testing.T) {
	for flag, want := range map[string]string{
		"cell": "", "epoch": "", "node": "", "help": "", "lease-ttl": "TENURE_LEASE_TTL", "nodes": "TENURE_NODES",
	} {
		if got := envName(flag); got != want {
			t.Errorf("--%s is set by %q, want %q", flag, got, want)
		}
	}
}

func TestHelpShowsEveryFlag(t *testing.T) {
	p := newTestProgram()
	if code := p.run([]string{"serve", "--help"}); code != exitDone {
		t.Fatalf("exit code %d", code)
	}
	help := p.out.String()
	for _, want := range []string{
		"--bucket BUCKET", "(default: sqlite:.tenure/fleet.db; env: TENURE_BUCKET)",
		"--idle-after DURATION", "(default: 10m; env: TENURE_IDLE_AFTER)",
		"(default: the fleet's; 10s for a new fleet; env: TENURE_LEASE_TTL)",
		"--ready-file PATH", "--max-queue REQUESTS", "500ms, 10s, 2m",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not say %q:\n%s", want, help)
		}
	}
}

func TestVersion(t *testing.T) {
	p := newTestProgram()
	code := p.run([]string{"version"})
	if code != exitDone || !strings.Contains(p.out.String(), fmt.Sprintf("peer protocol: %d\n", tenure.PeerProtocol)) {
		t.Errorf("exit code %d, stdout %q", code, p.out)
	}
}

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{
		exitDone:   nil,
		exitFailed: fmt.Errorf("drain: %w", tenure.ErrDrainTimeout),
		exitUsage:  usagef("bad"),
		exitFenced: reportedError{fmt.Errorf("authority expired: %w", tenure.ErrFenced)},
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
	if got := exitCode(errors.New("x")); got != exitFailed {
		t.Error(got)
	}
}

// decode reads a ready file as a script would.
func decode(t *testing.T, path string) map[string]string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]string
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
