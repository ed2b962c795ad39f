package tidy

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/tenure-go/tenure"
)

// file is one file that is, or would be, tracked. For Go files tree is set.
type file struct {
	path string // from the root, with slashes
	body []byte
	tree *ast.File
	fset *token.FileSet
}

func (f file) dir() string  { return path.Dir(f.path) }
func (f file) test() bool   { return strings.HasSuffix(f.path, "_test.go") }
func (f file) lines() int   { return bytes.Count(f.body, []byte("\n")) }
func (f file) binary() bool { return bytes.IndexByte(f.body, 0) >= 0 }

func (f file) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

// imports are the paths that a Go file imports.
func (f file) imports() []string {
	var paths []string
	for _, i := range f.tree.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

func newFile(name string, body []byte) (file, error) {
	f := file{path: name, body: body}
	if !strings.HasSuffix(name, ".go") || inTestdata(name) {
		return f, nil
	}
	f.fset = token.NewFileSet()
	tree, err := parser.ParseFile(f.fset, name, body, parser.ParseComments|parser.SkipObjectResolution)
	f.tree = tree
	return f, err
}

func inTestdata(name string) bool { return slices.Contains(strings.Split(name, "/"), "testdata") }

// repo reads all files once for all rules.
var repo = sync.OnceValues(func() ([]file, error) {
	names, err := tracked()
	if err != nil {
		return nil, err
	}
	var files []file
	for _, name := range names {
		body, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and the deletion not committed yet
		}
		if err != nil {
			return nil, err
		}
		f, err := newFile(name, body)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
})

// tracked lists what git tracks or would on "git add .". Without git (the
// module as downloaded) it is everything.
func tracked() ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil && len(out) > 0 {
		names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		slices.Sort(names)
		return slices.Compact(names), nil
	}
	var names []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name != "." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// goFiles leaves only Go files, without tests unless asked for.
func goFiles(files []file, tests bool) []file {
	return slices.DeleteFunc(slices.Clone(files), func(f file) bool {
		return f.tree == nil || f.test() && !tests
	})
}

// A rule returns one line for each thing that breaks it.
type rule func([]file) []string

// hold applies a rule to the repository.
func hold(t *testing.T, r rule) {
	t.Helper()
	files, err := repo()
	if err != nil {
		t.Fatal(err)
	}
	if len(goFiles(files, false)) == 0 {
		t.Fatal("no Go files were found")
	}
	for _, finding := range r(files) {
		t.Error(finding)
	}
}

// seed is a small repository, as name and content in turn.
func seed(t *testing.T, pairs ...string) []file {
	t.Helper()
	var files []file
	for i := 0; i < len(pairs); i += 2 {
		f, err := newFile(pairs[i], []byte(pairs[i+1]))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// breaks checks that a rule finds exactly one thing, that says want.
func breaks(t *testing.T, r rule, want string, pairs ...string) {
	t.Helper()
	got := r(seed(t, pairs...))
	if len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("%q\nfindings %q, want one that says %q", pairs, got, want)
	}
}

// keeps checks that a rule finds nothing.
func keeps(t *testing.T, r rule, pairs ...string) {
	t.Helper()
	if got := r(seed(t, pairs...)); len(got) != 0 {
		t.Errorf("%q\nfindings %q, want none", pairs, got)
	}
}
