package core_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The core may use these, and no others: nothing here knows a clock, a file, a
// goroutine or a random number.
var pureImports = []string{"cmp", "errors", "fmt", "maps", "slices", "strconv", "strings"}

// What maps offers whose result does not depend on the order of a map.
var pureMaps = []string{"Clone", "Copy", "Equal"}

func TestCoreIsPure(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	p := thePurity()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		files = append(files, p.parse(t, name, nil))
	}
	if len(files) == 0 {
		t.Fatal("no files of the core were found")
	}
	for _, finding := range p.check(t, files) {
		t.Error(finding)
	}
}

// Every rule must be seen to fail.
func TestPurityFindsImpurity(t *testing.T) {
	p := thePurity()
	for _, c := range []struct{ name, src, want string }{
		{"import", `import "time"; var _ time.Duration`, "imports time"},
		{"random", `import "math/rand/v2"; func f() int { return rand.Int() }`, "imports math/rand/v2"},
		{"go", `func f() { go f() }`, "starts a goroutine"},
		{"channel", `type t struct{ c chan int }`, "has a channel"},
		{"hidden channel", `func f(c <-chan int) { <-c }`, "has a channel"},
		{"select", `func f() { select {} }`, "selects"},
		{"range", `func f(m map[int]int) { for range m { } }`, "ranges over a map"},
		{"range over a named map", `type set map[int]bool; type s struct{ x set }; func f(v *s) { for k := range v.x { _ = k } }`, "ranges over a map"},
		{"range over a call", `func g() map[int]int { return nil }; func f() { for range g() { } }`, "ranges over a map"},
		{"range over a generic map", `func f[M ~map[K]V, K comparable, V any](m M) { for range m { } }`, "ranges over a map"},
		{"iterator", `import "maps"; func f(m map[int]int) { for range maps.Keys(m) { } }`, "uses maps.Keys"},
		{"unsorted", `import ("maps"; "slices"); func f(m map[int]int) []int { return slices.Collect(maps.Keys(m)) }`, "uses maps.Keys"},
		{"iterator as a value", `import "maps"; var it = maps.Values[map[int]int]`, "uses maps.Values"},
		{"another name", `import m "maps"; func f(x map[int]int) { for range m.All(x) { } }`, "uses maps.All"},
		{"order of calls", `import "maps"; func f(x map[int]int) { maps.DeleteFunc(x, func(int, int) bool { return true }) }`, "uses maps.DeleteFunc"},
		{"float", `type t struct{ f float64 }`, "has a float"},
		{"float constant", `func f(n int) bool { return n > 1e3 || 0.5 > 0 }`, "has a float"},
		{"package state", `var n int; func f() { n++ }`, "writes a package variable"},
		{"package map", `var m = map[int]int{}; func f() { m[1] = 2 }`, "writes a package variable"},
		{"package struct", `var s struct{ a []int }; func f() { s.a[0] = 2 }`, "writes a package variable"},
		{"output", `import "fmt"; func f() { fmt.Println() }`, "uses fmt.Println"},
		{"builtin output", `func f() { println() }`, "uses println"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := p.check(t, []*ast.File{p.parse(t, "seed.go", "package seed\n"+c.src)})
			if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("%s\nfindings %q, want one that says %q", c.src, got, c.want)
			}
		})
	}
}

func TestPurityAllowsThePure(t *testing.T) {
	p := thePurity()
	const src = `package seed
import ("fmt"; "maps"; "slices")
type set map[string]int
func f(m set, l []int) (string, map[string]int) {
	for _, k := range slices.Sorted(maps.Keys(m)) { delete(m, k) }
	for i := range l { m[fmt.Sprint(i)] = l[i] }
	for i := range 3 { l[i]++ }
	return "", maps.Clone(m)
}`
	if got := p.check(t, []*ast.File{p.parse(t, "seed.go", src)}); len(got) != 0 {
		t.Error(got)
	}
}

// purity has an importer, which reads the source of the standard library: once
// is enough.
type purity struct {
	fset     *token.FileSet
	importer types.Importer
}

var thePurity = sync.OnceValue(func() *purity {
	fset := token.NewFileSet()
	return &purity{fset, importer.ForCompiler(fset, "source", nil)}
})

func (p *purity) parse(t *testing.T, name string, src any) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(p.fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// check returns what is not pure in one package. It needs types: a map can hide
// behind a name, a field or a call.
func (p *purity) check(t *testing.T, files []*ast.File) []string {
	t.Helper()
	v := &purityVisitor{fset: p.fset, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
	}}
	config := types.Config{Importer: p.importer}
	pkg, err := config.Check("core", p.fset, files, v.info)
	if err != nil {
		t.Fatal(err)
	}
	v.pkg = pkg
	for _, f := range files {
		v.imports(f)
		ast.Inspect(f, v.node)
	}
	slices.Sort(v.findings)
	return slices.Compact(v.findings)
}

type purityVisitor struct {
	fset     *token.FileSet
	info     *types.Info
	pkg      *types.Package
	sorted   []ast.Node // map iterators that are sorted at once
	findings []string
}

func (v *purityVisitor) report(n ast.Node, format string, args ...any) {
	v.findings = append(v.findings, fmt.Sprintf("%s: the core %s", v.fset.Position(n.Pos()), fmt.Sprintf(format, args...)))
}

func (v *purityVisitor) imports(f *ast.File) {
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if !slices.Contains(pureImports, path) {
			v.report(i, "imports %s; allowed are %v", path, pureImports)
		}
	}
}

func (v *purityVisitor) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		v.report(n, "starts a goroutine")
	case *ast.SelectStmt:
		v.report(n, "selects")
	case *ast.RangeStmt:
		if t := v.info.TypeOf(n.X); t != nil && isMap(t) {
			v.report(n, "ranges over a map: sort its keys first")
		}
	case *ast.CallExpr:
		v.call(n)
	case *ast.SelectorExpr:
		v.selector(n)
	case *ast.AssignStmt:
		for _, to := range n.Lhs {
			v.assigned(to)
		}
	case *ast.IncDecStmt:
		v.assigned(n.X)
	}
	if e, ok := n.(ast.Expr); ok {
		v.expr(e)
	}
	return true
}

func (v *purityVisitor) expr(e ast.Expr) {
	t := v.info.TypeOf(e)
	if t == nil {
		return
	}
	switch u := t.Underlying().(type) {
	case *types.Chan:
		v.report(e, "has a channel")
	case *types.Basic:
		if u.Info()&(types.IsFloat|types.IsComplex) != 0 {
			v.report(e, "has a float")
		}
	}
}

// call notes the iterators in slices.Sorted(maps.Keys(m)), whose order is lost
// at once.
func (v *purityVisitor) call(c *ast.CallExpr) {
	if f, ok := c.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
		v.report(c, "uses %s", f.Name)
	}
	if pkg, name := v.imported(c.Fun); pkg != "slices" || name != "Sorted" || len(c.Args) != 1 {
		return
	}
	if inner, ok := c.Args[0].(*ast.CallExpr); ok {
		v.sorted = append(v.sorted, inner.Fun)
	}
}

func (v *purityVisitor) selector(s *ast.SelectorExpr) {
	pkg, name := v.imported(s)
	switch {
	case pkg == "maps" && !slices.Contains(pureMaps, name) && !slices.Contains(v.sorted, ast.Node(s)):
		v.report(s, "uses maps.%s, which depends on the order of a map", name)
	case pkg == "fmt" && (strings.HasPrefix(name, "Print") || strings.Contains(strings.ToLower(name), "scan")):
		v.report(s, "uses fmt.%s, which does I/O", name)
	}
}

// imported is the package path and the name in a selector such as maps.Keys.
func (v *purityVisitor) imported(e ast.Expr) (path, name string) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := s.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	if p, ok := v.info.Uses[id].(*types.PkgName); ok {
		return p.Imported().Path(), s.Sel.Name
	}
	return "", ""
}

// assigned: what Step remembers lives in State, or it could not be cloned.
func (v *purityVisitor) assigned(to ast.Expr) {
	for {
		switch e := to.(type) {
		case *ast.SelectorExpr:
			to = e.X
		case *ast.IndexExpr:
			to = e.X
		case *ast.StarExpr:
			to = e.X
		case *ast.ParenExpr:
			to = e.X
		case *ast.Ident:
			if o, ok := v.info.Uses[e].(*types.Var); ok && o.Parent() == v.pkg.Scope() {
				v.report(e, "writes a package variable, %s", e.Name)
			}
			return
		default:
			return
		}
	}
}

func isMap(t types.Type) bool {
	if p, ok := t.(*types.TypeParam); ok {
		t = p.Constraint()
	}
	switch u := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Interface:
		for i := range u.NumEmbeddeds() {
			if isMap(u.EmbeddedType(i)) {
				return true
			}
		}
	case *types.Union:
		for i := range u.Len() {
			if isMap(u.Term(i).Type()) {
				return true
			}
		}
	}
	return false
}
