// Package program gets and runs the real stores that the tests use: servers
// that are built or fetched once, run on a loopback port, and end with the test.
package program

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Process is a running server.
type Process struct {
	Address string // host:port

	cmd    *exec.Cmd
	output *bytes.Buffer // complete once exited is closed
	exited chan struct{}
	stop   sync.Once
}

// Start runs a server until the test ends, and returns when it answers HTTP.
// command makes it listen at an address.
func Start(t testing.TB, command func(address string) *exec.Cmd) *Process {
	t.Helper()
	var p *Process
	var err error
	for range 3 { // another process may take the port meanwhile
		if p, err = start(t.Context(), command); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// Stop kills the server and waits for its end. It may be called again.
func (p *Process) Stop() {
	p.stop.Do(func() {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		<-p.exited
	})
}

func start(ctx context.Context, command func(string) *exec.Cmd) (*Process, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{Address: address, cmd: command(address), output: &bytes.Buffer{}, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // killed, as a rule
		close(p.exited)
	}()
	if err := p.awaitReady(ctx); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w; it printed: %s", filepath.Base(p.cmd.Path), err, p.output)
	}
	return p, nil
}

func (p *Process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second) // Node.js on a busy machine
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Address, nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			return answer.Body.Close() // it may refuse strangers, but it answers
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return fmt.Errorf("ended at once: %v", p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("did not answer: %w", ctx.Err())
		}
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
