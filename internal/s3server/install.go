package s3server

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Older versions let several conditional writes win.
const (
	module  = "github.com/versity/versitygw"
	version = "v1.8.0"
)

func unavailable(t testing.TB, err error) {
	t.Helper()
	message := fmt.Sprintf("no S3 server to test with: %v\nInstall it: go install %s/cmd/versitygw@%s", err, module, version)
	if os.Getenv("CI") == "true" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// find returns the path of the right version of versitygw, and builds it into
// the user's cache if there is none.
func find(t testing.TB) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := "versitygw"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	cached := filepath.Join(cache, "tenure-test", version, name)
	candidates := []string{cached}
	if path, err := exec.LookPath(name); err == nil {
		candidates = append(candidates, path)
	}
	if gopath, err := exec.Command("go", "env", "GOPATH").Output(); err == nil {
		for _, dir := range filepath.SplitList(strings.TrimSpace(string(gopath))) {
			candidates = append(candidates, filepath.Join(dir, "bin", name))
		}
	}
	for _, path := range candidates {
		if rightVersion(path) {
			return path, nil
		}
	}
	return cached, build(t, cached)
}

func rightVersion(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Main.Path == module && info.Main.Version == version
}

// build goes through a temporary folder, since several test programs may do it
// at once.
func build(t testing.TB, cached string) error {
	fmt.Fprintf(os.Stderr, "building versitygw %s for the tests; this happens once and takes some minutes\n", version)
	if err := os.MkdirAll(filepath.Dir(cached), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(cached), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "go", "install", "-ldflags=-s -w", module+"/cmd/versitygw@"+version)
	install.Dir = dir // away from this module and its go.mod
	install.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("build versitygw: %w: %s", err, out)
	}
	return os.Rename(filepath.Join(dir, filepath.Base(cached)), cached)
}
