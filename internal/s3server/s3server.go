// Package s3server runs a real S3 server, versitygw, on a loopback port for the
// tests.
package s3server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket/s3"
)

// Server is a running store with one empty bucket.
type Server struct {
	Endpoint string // its URL
	Bucket   string
	Dir      string // where it keeps its files

	process *exec.Cmd
	output  *bytes.Buffer // complete once exited is closed
	exited  chan struct{}
	stop    sync.Once
}

const (
	accessKeyID     = "testkey"
	secretAccessKey = "testsecret123"
	region          = "us-east-1"
)

// Start runs a server until the test ends. Where versitygw is neither installed
// nor can be built, it skips the test, or fails it if CI=true.
func Start(t testing.TB) *Server {
	t.Helper()
	program, err := find(t)
	if err != nil {
		unavailable(t, err)
	}
	dir := t.TempDir()
	var s *Server
	for range 3 { // another process may take the port meanwhile
		if s, err = run(t.Context(), program, dir); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Options open the server's bucket with a client of its own.
func (s *Server) Options() s3.Options {
	return s3.Options{
		Bucket: s.Bucket, Endpoint: s.Endpoint, Region: region, PathStyle: true,
		AccessKeyID: accessKeyID, SecretAccessKey: secretAccessKey,
	}
}

// URL is the bucket as a command line names it. The credentials are in Env.
func (s *Server) URL() string {
	query := url.Values{"endpoint": {s.Endpoint}, "region": {region}, "path_style": {"true"}}
	return "s3://" + s.Bucket + "?" + query.Encode()
}

// Env are the variables that give a child process access.
func (s *Server) Env() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + accessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + secretAccessKey,
		"AWS_REGION=" + region,
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// Stop kills the server and waits for its end. It may be called again.
func (s *Server) Stop() {
	s.stop.Do(func() {
		_ = s.process.Process.Kill() // it may have ended by itself
		<-s.exited
	})
}

func run(ctx context.Context, program, dir string) (*Server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	// To this server a folder is a bucket.
	if err := os.MkdirAll(filepath.Join(dir, "fleet"), 0o755); err != nil {
		return nil, err
	}
	s := &Server{
		Endpoint: "http://" + address, Bucket: "fleet", Dir: dir,
		process: exec.Command(program, "--port", address, "--quiet", "posix", dir),
		output:  &bytes.Buffer{},
		exited:  make(chan struct{}),
	}
	s.process.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKeyID, "ROOT_SECRET_KEY="+secretAccessKey)
	s.process.Stdout, s.process.Stderr = s.output, s.output
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.process.Wait() // killed, as a rule
		close(s.exited)
	}()
	if err := s.awaitReady(ctx); err != nil {
		s.Stop()
		return nil, fmt.Errorf("%s: %w; it printed: %s", filepath.Base(program), err, s.output)
	}
	return s, nil
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint, nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			return answer.Body.Close() // it refuses strangers, but it answers
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return fmt.Errorf("ended at once: %v", s.process.ProcessState)
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
