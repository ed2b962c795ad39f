// Package s3server runs real S3 servers on a loopback port for the tests:
// versitygw, which keeps files and checks signatures; the gofakes3 program,
// which keeps nothing and checks none; and MinIO where it is installed.
package s3server

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenure-go/tenure/bucket/s3"
	"github.com/tenure-go/tenure/internal/program"
)

// Older versions let several conditional writes win.
var versitygw = program.GoCommand{Module: "github.com/versity/versitygw", Version: "v1.8.0", Package: "cmd/versitygw"}

var gofakes3 = program.GoCommand{Module: "github.com/johannesboyne/gofakes3", Version: "v1.2.0", Package: "cmd/gofakes3"}

// Server is a running store with one empty bucket.
type Server struct {
	Endpoint string // its URL
	Bucket   string
	Dir      string // where it keeps its files

	process *program.Process
}

const (
	accessKeyID     = "testkey"
	secretAccessKey = "testsecret123"
	region          = "us-east-1"
	name            = "fleet"
)

// Start runs versitygw until the test ends. Where it is neither installed nor
// can be built, the test is skipped, or fails if CI=true.
func Start(t testing.TB) *Server {
	t.Helper()
	path, dir := versitygw.Find(t), t.TempDir()
	// To this server a folder is a bucket.
	if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	return start(t, dir, func(address string) *exec.Cmd {
		c := exec.Command(path, "--port", address, "--quiet", "posix", dir)
		c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKeyID, "ROOT_SECRET_KEY="+secretAccessKey)
		return c
	})
}

// StartFake runs gofakes3, under the same conditions. As it checks no signature,
// a proxy in front of it may change requests.
func StartFake(t testing.TB) *Server {
	t.Helper()
	path := gofakes3.Find(t)
	return start(t, "", func(address string) *exec.Cmd {
		return exec.Command(path, "-host", address, "-backend", "memory", "-initialbucket", name, "-quiet")
	})
}

// StartMinIO runs MinIO, and skips the test where it is not installed: it takes
// long to build.
func StartMinIO(t testing.TB) *Server {
	t.Helper()
	path, err := exec.LookPath("minio")
	if err != nil {
		t.Skip("minio is not installed")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	return start(t, dir, func(address string) *exec.Cmd {
		c := exec.Command(path, "server", "--quiet", "--address", address, dir)
		c.Env = append(os.Environ(), "MINIO_ROOT_USER="+accessKeyID, "MINIO_ROOT_PASSWORD="+secretAccessKey,
			"MINIO_BROWSER=off", "MINIO_UPDATE=off")
		return c
	})
}

func start(t testing.TB, dir string, command func(address string) *exec.Cmd) *Server {
	t.Helper()
	p := program.Start(t, command)
	return &Server{Endpoint: "http://" + p.Address, Bucket: name, Dir: dir, process: p}
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
func (s *Server) Stop() { s.process.Stop() }
