//go:build unix

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one run of the program. It ends with its test at the latest.
type process struct {
	name   string
	pid    int
	out    transcript // stdout
	log    transcript // stderr
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process has been waited for
	ended  time.Time     // valid then
}

// start runs the program. Its output is in the test's log if that fails.
func start(t *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(program, args...), exited: make(chan struct{})}
	p.cmd.Env = append(cleanEnv(), env...)
	p.cmd.Dir = t.TempDir() // nothing may land in the source folder
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	p.cmd.SysProcAttr = processAttr()
	p.cmd.WaitDelay = 2 * time.Second
	if err := spawn(p.cmd); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		_ = p.cmd.Wait() // the exit code is what the tests look at
		p.ended = time.Now()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.end()
		for _, crash := range []string{"panic:", "fatal error:", "DATA RACE"} { // races: GOFLAGS=-race
			if len(p.log.with(crash)) > 0 {
				t.Errorf("%s: there is %q on its stderr", name, crash)
			}
		}
		if t.Failed() {
			t.Logf("%s (process %d) printed:\n%s%s", name, p.pid, p.out.text(), p.log.text())
		}
	})
	return p
}

// cleanEnv is without what would reach the program by accident.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		ours := strings.HasPrefix(name, "TENURE_") || strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "AZURE_")
		if !ours && name != "STORAGE_EMULATOR_HOST" {
			env = append(env, v)
		}
	}
	return env
}

// spawns is served by one thread that lives as long as the tests: Linux ties
// the death signal of a child to the thread that made it.
var spawns = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func spawn(cmd *exec.Cmd) error {
	result := make(chan error)
	spawns() <- func() { result <- cmd.Start() }
	return <-result
}

// running is false once the process has ended.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// signal sends a signal to the process alone.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%s: %v: %v", p.name, s, err)
	}
}

// kill is SIGKILL, at the time that it returns.
func (p *process) kill(t *testing.T) time.Time {
	t.Helper()
	now := time.Now()
	p.signal(t, syscall.SIGKILL)
	return now
}

// freeze is SIGSTOP, and returns once no thread of the process runs any more:
// for some milliseconds after the signal, on a busy machine, some still do.
func (p *process) freeze(t *testing.T) time.Time {
	t.Helper()
	now := time.Now()
	p.signal(t, syscall.SIGSTOP)
	eventually(t, time.Second, p.name+" has stopped", func() bool {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(p.pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		return err == nil && pid == p.pid && status.Stopped()
	})
	return now
}

// end kills the process and its group, which nobody else is in, and waits.
func (p *process) end() {
	if p.running() {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // it may be ending just now
	}
	<-p.exited
}

// exit waits for the process to end by itself, and returns its exit code; -1
// if a signal ended it.
func (p *process) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("%s still runs after %v", p.name, within)
		return 0
	}
}

// transcript collects what a process prints, for readers meanwhile.
type transcript struct {
	lock sync.Mutex
	b    bytes.Buffer
}

func (x *transcript) Write(p []byte) (int, error) {
	x.lock.Lock()
	defer x.lock.Unlock()
	return x.b.Write(p)
}

func (x *transcript) text() string {
	x.lock.Lock()
	defer x.lock.Unlock()
	return x.b.String()
}

func (x *transcript) lines() []string {
	return strings.Split(strings.TrimSuffix(x.text(), "\n"), "\n")
}

// with returns the lines that contain all the texts.
func (x *transcript) with(texts ...string) []string {
	var found []string
next:
	for _, line := range x.lines() {
		for _, s := range texts {
			if !strings.Contains(line, s) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// eventually polls until ok, and fails the test at the deadline.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	if !poll(within, ok) {
		t.Fatalf("%s: not within %v", what, within)
	}
}

// poll reports whether ok came true in time.
func poll(within time.Duration, ok func() bool) bool {
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

// until waits for an instant.
func until(at time.Time) { <-time.After(time.Until(at)) }
