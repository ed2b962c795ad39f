// Package gcsserver runs a real Cloud Storage server, fake-gcs-server, on a
// loopback port for the tests.
package gcsserver

import (
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/bucket/gcs"
	"github.com/tenure-go/tenure/internal/program"
)

var command = program.GoCommand{Module: "github.com/fsouza/fake-gcs-server", Version: "v1.56.1"}

// Server is a running store with one empty bucket.
type Server struct {
	Endpoint string // its URL
	Bucket   string
}

// Start runs the server until the test ends. Where it is neither installed nor
// can be built, the test is skipped, or fails if CI=true.
func Start(t testing.TB) *Server {
	t.Helper()
	path := command.Find(t)
	p := program.Start(t, func(address string) *exec.Cmd {
		host, port, _ := net.SplitHostPort(address)
		return exec.Command(path, "-scheme", "http", "-host", host, "-port", port, "-backend", "memory",
			"-public-host", address, "-external-url", "http://"+address, "-log-level", "error")
	})
	s := &Server{Endpoint: "http://" + p.Address, Bucket: "fleet"}
	answer, err := http.Post(s.Endpoint+"/storage/v1/b?project=test", "application/json", strings.NewReader(`{"name":"fleet"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		t.Fatalf("make a bucket: %s: %s", answer.Status, body)
	}
	return s
}

// Options open the server's bucket with a client of its own.
func (s *Server) Options() gcs.Options { return gcs.Options{Bucket: s.Bucket, Emulator: s.Endpoint} }

// URL is the bucket as a command line names it. Where it is, is in Env.
func (s *Server) URL() string { return "gs://" + s.Bucket }

// Env are the variables that give a child process access.
func (s *Server) Env() []string { return []string{"STORAGE_EMULATOR_HOST=" + s.Endpoint} }
