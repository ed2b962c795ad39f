package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// upOptions are the flags of "tenure up".
type upOptions struct {
	nodes        int
	dir, bucket  string
	leaseTTL     time.Duration
	drainTimeout time.Duration
	logLevel     string
}

const (
	maxUpNodes = 64
	// newFleetTTL is short, so that a failover can be watched.
	newFleetTTL = 3 * time.Second
)

func (o *upOptions) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.IntVar(&o.nodes, "nodes", 3, "how many `NODES` to run")
	f.StringVar(&o.dir, "dir", ".tenure", "`FOLDER` of the bucket and of what else the fleet leaves behind")
	f.StringVar(&o.bucket, "bucket", "", "`BUCKET` to use instead, as in \"tenure serve\"")
	describeDefault(f, "bucket", "sqlite:fleet.db in the folder")
	f.DurationVar(&o.leaseTTL, "lease-ttl", 0, "`DURATION` of a node lease, which a failover waits for")
	describeDefault(f, "lease-ttl", "3s in a new folder, else the fleet's")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 10*time.Second, "`DURATION` that a node's drain may take")
	f.StringVar(&o.logLevel, "log-level", "warn", "least `LEVEL` of the nodes' logs: debug, info, warn or error")
}

func (o *upOptions) check() error {
	if o.nodes < 1 || o.nodes > maxUpNodes {
		return usagef("--nodes is %d, must be from 1 to %d", o.nodes, maxUpNodes)
	}
	serve := serveOptions{leaseTTL: o.leaseTTL, requestTimeout: 1, drainTimeout: o.drainTimeout}
	return first(notEmpty("dir", o.dir), serve.checkDurations(),
		oneOf("log-level", o.logLevel, "debug", "info", "warn", "error"))
}

func (p *program) upCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a fleet on this machine, to try it",
		Long: "Run a fleet on this machine, with the demo application: one child process per\n" +
			"node, on ports 8080, 8081, ... or free ones. A child that dies is started again,\n" +
			"as a new node. Ctrl-C drains all of them, a second Ctrl-C kills them. Other flags\n" +
			"of \"tenure serve\" can be given by their variables.",
		Args: noArgs,
	}
	o.define(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.settle(cmd.Flags(), o.check); err != nil {
			return err
		}
		return p.up(o)
	}
	return cmd
}

// up runs the fleet until it was told to stop and every child has ended.
func (p *program) up(o upOptions) error {
	unlock, err := prepareFolder(o.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := o.complete(); err != nil {
		return err
	}
	children, err := p.children(o)
	if err != nil {
		return err
	}
	f := newFleet(p, children)
	f.introduce(o)
	return f.run()
}

// prepareFolder makes the folder, keeps it out of git, and keeps a second
// "tenure up" out of it.
func prepareFolder(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ignore := filepath.Join(dir, ".gitignore")
	if _, err := os.Stat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := writeWhole(ignore, []byte("*\n")); err != nil {
			return nil, err
		}
	}
	unlock, err = lockFile(filepath.Join(dir, "up.lock"))
	if err != nil {
		return nil, fmt.Errorf("another \"tenure up\" runs in %s: stop it, or give another --dir (%w)", dir, err)
	}
	return unlock, nil
}

// complete fills in what depends on the folder.
func (o *upOptions) complete() error {
	if o.bucket != "" {
		return nil
	}
	file := filepath.Join(o.dir, "fleet.db")
	o.bucket = "sqlite:" + file
	_, err := os.Stat(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.leaseTTL = cmp.Or(o.leaseTTL, newFleetTTL)
	return nil
}

func (p *program) children(o upOptions) ([]*child, error) {
	want := make([]int, 2*o.nodes) // the operator's come last
	for i := range o.nodes {
		if p.firstPort != 0 {
			want[i] = p.firstPort + i
		}
	}
	addrs, err := choosePorts(want)
	if err != nil {
		return nil, err
	}
	var all []*child
	for i := range o.nodes {
		name := fmt.Sprintf("n%d", i+1)
		ready := readyFile(filepath.Join(o.dir, name+".ready"))
		c := &child{name: name, listen: addrs[i], admin: addrs[o.nodes+i], ready: ready, program: p.executable}
		c.args = []string{
			"serve", "--name", name, "--bucket", o.bucket, "--app", demoApp,
			"--listen", c.listen, "--peer-listen", "127.0.0.1:0", "--admin-listen", c.admin,
			"--ready-file", string(ready), "--log-level", o.logLevel,
			"--drain-timeout", o.drainTimeout.String(),
		}
		if o.leaseTTL != 0 {
			c.args = append(c.args, "--lease-ttl", o.leaseTTL.String())
		}
		all = append(all, c)
	}
	return all, nil
}

// fleet is the children and what is said about them.
type fleet struct {
	children       []*child
	signals        <-chan os.Signal
	spawn          spawner
	stdout, stderr io.Writer
}

func newFleet(p *program, children []*child) *fleet {
	f := &fleet{children: children, signals: p.signals, spawn: newSpawner()}
	// Both often are one terminal.
	lock := &sync.Mutex{}
	f.stdout, f.stderr = &lockedWriter{lock, p.stdout}, &lockedWriter{lock, p.stderr}
	return f
}

func (f *fleet) introduce(o upOptions) {
	one, other := f.children[0], f.children[len(f.children)-1]
	fmt.Fprintf(f.stdout, `tenure: %d nodes over %s, with the demo application

  try it   curl -X POST http://%s/cells/room-1
           curl -X POST http://%s/cells/room-1   (another node: the same owner counts on)
  fail     kill -9 the owner's process, and try again: another node takes over
  stop     Ctrl-C

`, len(f.children), o.bucket, one.listen, other.listen)
}

// run returns when every child has ended for good.
func (f *fleet) run() error {
	stop, stopping := context.WithCancel(context.Background())
	kill, killing := context.WithCancel(context.Background())
	defer stopping()
	defer killing()
	go f.watchSignals(stopping, killing)
	go f.watchOwners(stop)

	results := make(chan error)
	for _, c := range f.children {
		first := f.begin(c)
		go func() { results <- f.supervise(stop, kill, c, first) }()
	}
	var failed []error
	for range f.children {
		if err := <-results; err != nil {
			stopping() // one that cannot be helped ends all
			fmt.Fprintf(f.stderr, "tenure: %v\n", err)
			failed = append(failed, err)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return reportedError{errors.Join(failed...)}
}

func (f *fleet) watchSignals(stopping, killing func()) {
	<-f.signals
	fmt.Fprintln(f.stderr, "tenure: draining all nodes; Ctrl-C again kills them")
	stopping()
	<-f.signals
	killing()
}

// lockedWriter keeps what several goroutines write apart.
type lockedWriter struct {
	lock *sync.Mutex
	w    io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.w.Write(b)
}
