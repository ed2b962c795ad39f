package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	maxFuncLines    = 70
	medianFuncLines = 9 // eight, and the closing brace
	maxFileLines    = 500
	maxFileBytes    = 256 << 10
)

// functions calls do for every function and method declared in a file.
func functions(f file, do func(d *ast.FuncDecl)) {
	for _, d := range f.tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			do(fn)
		}
	}
}

// length is a function's lines, its first and last included.
func length(f file, d *ast.FuncDecl) int {
	return f.fset.Position(d.End()).Line - f.line(d) + 1
}

func functionRule(files []file) []string {
	var found []string
	for _, f := range goFiles(files, false) {
		functions(f, func(d *ast.FuncDecl) {
			if n := length(f, d); n > maxFuncLines {
				found = append(found, fmt.Sprintf("%s:%d: %s has %d lines, at most %d are allowed", f.path, f.line(d), d.Name.Name, n, maxFuncLines))
			}
		})
	}
	return found
}

func medianRule(files []file) []string {
	var all []int
	for _, f := range goFiles(files, false) {
		functions(f, func(d *ast.FuncDecl) { all = append(all, length(f, d)) })
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	if m := all[len(all)/2]; m > medianFuncLines {
		return []string{fmt.Sprintf("functions have %d lines at the median, at most %d are allowed", m, medianFuncLines)}
	}
	return nil
}

func fileRule(files []file) []string {
	var found []string
	for _, f := range files {
		switch {
		case f.tree != nil && !f.test() && f.lines() > maxFileLines:
			found = append(found, fmt.Sprintf("%s has %d lines, at most %d are allowed", f.path, f.lines(), maxFileLines))
		case len(f.body) > maxFileBytes && !inTestdata(f.path):
			found = append(found, fmt.Sprintf("%s has %d bytes, at most %d are allowed", f.path, len(f.body), maxFileBytes))
		}
	}
	return found
}

// initRule: importing a package does nothing.
func initRule(files []file) []string {
	var found []string
	for _, f := range goFiles(files, true) {
		functions(f, func(d *ast.FuncDecl) {
			if d.Recv == nil && d.Name.Name == "init" {
				found = append(found, fmt.Sprintf("%s:%d: init() runs unasked", f.path, f.line(d)))
			}
		})
	}
	return found
}

// sleepRule: a test that sleeps is slow, or fails now and then, or both.
func sleepRule(files []file) []string {
	var found []string
	for _, f := range goFiles(files, true) {
		name := importedAs(f, "time")
		if !f.test() || name == "" {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
					found = append(found, fmt.Sprintf("%s:%d: a test sleeps; use testing/synctest", f.path, f.line(s)))
				}
			}
			return true
		})
	}
	return found
}

// importedAs is the name under which a file knows a standard package.
func importedAs(f file, path string) string {
	for _, i := range f.tree.Imports {
		if i.Path.Value != strconv.Quote(path) {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path[strings.LastIndex(path, "/")+1:]
	}
	return ""
}

// function writes one with that many lines.
func function(name string, lines int) string {
	return "func " + name + "() {\n" + strings.Repeat("_ = 0\n", lines-2) + "}\n"
}

func TestFunctionSize(t *testing.T) {
	hold(t, functionRule)
	breaks(t, functionRule, "long has 71 lines", "a.go", "package a\n"+function("long", 71))
	keeps(t, functionRule, "a.go", "package a\n"+function("fits", 70), "a_test.go", "package a\n"+function("long", 99))
}

func TestFunctionSizeAtTheMedian(t *testing.T) {
	hold(t, medianRule)
	breaks(t, medianRule, "10 lines at the median", "a.go", "package a\n"+function("f", 2)+function("g", 10)+function("h", 10))
	keeps(t, medianRule, "a.go", "package a\n"+function("f", 2)+function("g", 9)+function("h", 70))
}

func TestFileSize(t *testing.T) {
	hold(t, fileRule)
	breaks(t, fileRule, "has 501 lines", "a.go", "package a\n"+strings.Repeat("\n", 500))
	breaks(t, fileRule, "bytes", "logo.bin", strings.Repeat("x", maxFileBytes+1))
	keeps(t, fileRule, "a_test.go", "package a\n"+strings.Repeat("\n", 900), "testdata/big", strings.Repeat("x", maxFileBytes+1))
}

func TestNoInit(t *testing.T) {
	hold(t, initRule)
	breaks(t, initRule, "a.go:2", "a.go", "package a\nfunc init() {}")
	keeps(t, initRule, "a.go", "package a\ntype t int\nfunc (t) init() {}")
}

func TestNoSleepInTests(t *testing.T) {
	hold(t, sleepRule)
	breaks(t, sleepRule, "a_test.go:3", "a_test.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }")
	breaks(t, sleepRule, "a_test.go:3", "a_test.go", "package a\nimport clock \"time\"\nvar s = clock.Sleep")
	keeps(t, sleepRule, "a.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }")
	keeps(t, sleepRule, "a_test.go", "package a\n// time.Sleep(1)\nconst s = `time.Sleep(`")
}
