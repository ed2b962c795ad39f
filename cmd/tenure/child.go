package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is one node of "tenure up", through all its lives.
type child struct {
	name          string
	listen, admin string
	ready         readyFile
	program       string
	args          []string
}

// Pauses before a child that died is started again.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 10 * time.Second
	// A child that lived this long was healthy.
	healthyLife = 30 * time.Second
	// A child that failed so often in a row, early in its life, will not do
	// better: its bucket or its flags do not fit.
	maxFailures = 3
)

// supervise runs the child, from its first life on, again and again, until
// stop; kill ends it at once.
func (f *fleet) supervise(stop, kill context.Context, c *child, l life) error {
	failures := 0
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		started := time.Now()
		err := f.attend(stop, kill, c, l)
		if failures++; code(err) != exitFailed || time.Since(started) > healthyLife {
			failures = 0
		}
		switch {
		case code(err) == exitUsage:
			return usagef("%s did not accept its flags", c.name)
		case stop.Err() != nil && err != nil && !unborn(err):
			return fmt.Errorf("%s: %w", c.name, err)
		case stop.Err() != nil:
			return nil
		case failures == maxFailures:
			return fmt.Errorf("%s failed %d times in a row; what it said above tells why", c.name, failures)
		}
		if time.Since(started) > healthyLife {
			pause = firstPause
		}
		fmt.Fprintf(f.stderr, "tenure: %s ended (%s); starting a new node in %s\n", c.name, ending(err), pause)
		select {
		case <-stop.Done():
			return nil
		case <-time.After(pause):
		}
		l = f.begin(c)
	}
}

// life is one process of a child, or why there is none.
type life struct {
	cmd *exec.Cmd
	log *prefixWriter
	err error
}

func (f *fleet) begin(c *child) life {
	cmd := exec.Command(c.program, c.args...)
	cmd.Env = childEnv(os.Environ())
	log := &prefixWriter{prefix: c.name + " | ", w: f.stderr}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttr()
	cmd.WaitDelay = time.Second
	err := f.spawn.start(cmd)
	if err == nil {
		fmt.Fprintf(f.stdout, "  %-4s http://%s   pid %-7d operator http://%s\n", c.name, c.listen, cmd.Process.Pid, c.admin)
	}
	return life{cmd, log, err}
}

// attend waits for the end of a life.
func (f *fleet) attend(stop, kill context.Context, c *child, l life) error {
	if l.err != nil {
		return l.err
	}
	err := attendProcess(stop, kill, l.cmd)
	l.log.flush()
	// A process that was killed leaves it behind.
	return errors.Join(err, c.ready.remove())
}

func attendProcess(stop, kill context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped, killed := stop.Done(), kill.Done()
	for {
		select {
		case err := <-ended:
			return err
		case <-stopped:
			stopped = nil
			if cmd.Process.Signal(syscall.SIGTERM) != nil { // not known everywhere
				_ = cmd.Process.Kill()
			}
		case <-killed:
			killed = nil
			_ = cmd.Process.Kill()
		}
	}
}

// childEnv leaves out what cannot hold for several nodes, or for a loopback
// operator address.
func childEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "TENURE_ADVERTISE=") || strings.HasPrefix(v, "TENURE_ADMIN_TOKEN=") || strings.HasPrefix(v, "TENURE_TRACE=")
	})
}

// code is the exit code of a process that ended by itself, else -1.
func code(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// unborn: it was told to stop before it had begun to listen for that.
func unborn(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

func ending(err error) string {
	switch {
	case err == nil:
		return "exit status 0"
	case code(err) == exitFenced:
		return "fenced"
	}
	return err.Error()
}

// spawner starts all children from one thread that lives as long as the
// process: Linux ties the death signal of a child to the thread that made it.
type spawner chan spawnRequest

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan<- error
}

func newSpawner() spawner {
	s := make(spawner)
	go s.run()
	return s
}

func (s spawner) run() {
	runtime.LockOSThread()
	for r := range s {
		r.done <- r.cmd.Start()
	}
}

func (s spawner) start(cmd *exec.Cmd) error {
	done := make(chan error)
	s <- spawnRequest{cmd, done}
	return <-done
}

// prefixWriter puts the child's name before each of its lines.
type prefixWriter struct {
	prefix string
	w      io.Writer
	lock   sync.Mutex
	rest   []byte // of a line that has not ended
}

// maxLine is where a line is cut, so that a child cannot make its parent grow.
const maxLine = 64 << 10

func (p *prefixWriter) Write(b []byte) (int, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.rest = append(p.rest, b...)
	for {
		line, rest, ok := bytes.Cut(p.rest, []byte("\n"))
		if !ok && len(p.rest) < maxLine {
			return len(b), nil
		}
		p.rest = rest
		fmt.Fprintf(p.w, "%s%s\n", p.prefix, line)
	}
}

// flush writes what a child said last, without an end of line.
func (p *prefixWriter) flush() {
	p.lock.Lock()
	defer p.lock.Unlock()
	if len(p.rest) > 0 {
		fmt.Fprintf(p.w, "%s%s\n", p.prefix, p.rest)
	}
	p.rest = nil
}
