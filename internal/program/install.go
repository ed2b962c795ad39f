package program

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

// GoCommand is a command of a Go module, in the one version that is tested with.
type GoCommand struct {
	Module, Version string
	Package         string // below the module; empty: the module itself
}

func (c GoCommand) path() string { return strings.TrimSuffix(c.Module+"/"+c.Package, "/") }

func (c GoCommand) name() string {
	name := filepath.Base(c.path())
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}

// Find returns the path of the command, and builds it into the user's cache if
// it is nowhere. Without it the test is skipped, or fails if CI=true.
func (c GoCommand) Find(t testing.TB) string {
	t.Helper()
	path, err := c.find(t)
	if err != nil {
		Unavailable(t, fmt.Errorf("%w\nInstall it: go install %s@%s", err, c.path(), c.Version))
	}
	return path
}

func (c GoCommand) find(t testing.TB) (string, error) {
	dir, err := cacheDir(c.Version)
	if err != nil {
		return "", err
	}
	cached := filepath.Join(dir, c.name())
	candidates := []string{cached}
	if path, err := exec.LookPath(c.name()); err == nil {
		candidates = append(candidates, path)
	}
	if gopath, err := exec.Command("go", "env", "GOPATH").Output(); err == nil {
		for _, dir := range filepath.SplitList(strings.TrimSpace(string(gopath))) {
			candidates = append(candidates, filepath.Join(dir, "bin", c.name()))
		}
	}
	for _, path := range candidates {
		if info, err := buildinfo.ReadFile(path); err == nil && info.Main.Path == c.Module && info.Main.Version == c.Version {
			return path, nil
		}
	}
	return cached, once(t, cached, c.name()+" "+c.Version, func(ctx context.Context, dir string) error {
		install := exec.CommandContext(ctx, "go", "install", "-ldflags=-s -w", c.path()+"@"+c.Version)
		install.Dir = dir // away from this module and its go.mod
		install.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=")
		return run(install)
	})
}

// NodePackage is a package of npm, in the one version that is tested with.
type NodePackage struct {
	Name, Version string
	Main          string // below the package: the file that node runs
}

// Find is like GoCommand's; it needs node and npm. It returns the file to run.
func (p NodePackage) Find(t testing.TB) string {
	t.Helper()
	path, err := p.find(t)
	if err != nil {
		Unavailable(t, fmt.Errorf("%w\nInstall Node.js, which brings node and npm, in version 20 or later", err))
	}
	return path
}

func (p NodePackage) find(t testing.TB) (string, error) {
	for _, command := range []string{"node", "npm"} {
		if _, err := exec.LookPath(command); err != nil {
			return "", fmt.Errorf("%s %s needs %s: %w", p.Name, p.Version, command, err)
		}
	}
	dir, err := cacheDir(p.Version)
	if err != nil {
		return "", err
	}
	tree := filepath.Join(dir, p.Name)
	file := filepath.Join(tree, "node_modules", p.Name, p.Main)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	return file, once(t, tree, p.Name+" "+p.Version, func(ctx context.Context, dir string) error {
		tree := filepath.Join(dir, p.Name)
		if err := os.Mkdir(tree, 0o755); err != nil {
			return err
		}
		// No scripts: they are for the native parts of what is not used here.
		install := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", tree, p.Name+"@"+p.Version)
		install.Dir = tree
		return run(install)
	})
}

// cacheDir is where the servers of a version are kept between runs.
func cacheDir(version string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "tenure-test", version)
	return dir, os.MkdirAll(dir, 0o755)
}

// once makes what is to be at path in a folder beside it, and moves it there,
// since several test programs may do it at once.
func once(t testing.TB, path, what string, make func(ctx context.Context, dir string) error) error {
	fmt.Fprintf(os.Stderr, "building or fetching %s for the tests; this happens once and takes some minutes\n", what)
	dir, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	if err := make(ctx, dir); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	err = os.Rename(filepath.Join(dir, filepath.Base(path)), path)
	if _, there := os.Stat(path); there == nil {
		return nil // another process was first
	}
	return err
}

func run(c *exec.Cmd) error {
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Unavailable skips the test, or fails it if CI=true.
func Unavailable(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no server to test with: %v", err)
	}
	t.Skipf("no server to test with: %v", err)
}
