package tidy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// allowed is what the non-test files of one folder may import: std lists
// standard packages where not all are allowed; own are folders of this module
// ("x/..." with all below); other are prefixes of other modules' packages.
type allowed struct {
	std   []string
	own   []string
	other []string
}

// layout is the architecture. node, peer, gateway and admin do not know each
// other; the root package joins them. An SDK stays inside its adapter.
var layout = map[string]allowed{
	"core":                    {std: []string{"cmp", "errors", "fmt", "maps", "slices", "strconv", "strings"}},
	"bucket":                  {},
	"bucket/s3":               {own: []string{"bucket", "internal/exchange"}, other: []string{"github.com/aws/"}},
	"bucket/gcs":              {own: []string{"bucket", "internal/exchange"}, other: []string{"golang.org/x/oauth2"}},
	"bucket/azure":            {own: []string{"bucket", "internal/exchange"}, other: []string{"github.com/Azure/"}},
	"bucket/sqlite":           {own: []string{"bucket"}, other: []string{"modernc.org/sqlite", "golang.org/x/sys/"}},
	"bucket/mem":              {own: []string{"bucket"}},
	"bucket/pace":             {own: []string{"bucket"}},
	"bucket/buckettest":       {own: []string{"bucket", "bucket/buckettest/proxy"}},
	"bucket/buckettest/proxy": {},
	"node":                    {own: []string{"core", "bucket", "internal/wire"}, other: []string{"golang.org/x/sys/"}},
	"peer":                    {own: []string{"core"}},
	"gateway":                 {own: []string{"core"}},
	"admin":                   {own: []string{"core"}},
	".":                       {own: []string{"core", "bucket/...", "node", "peer", "gateway", "admin", "internal/..."}},
	"cmd/tenure":              {own: []string{".", "internal/..."}, other: []string{"github.com/spf13/"}},
	"internal/wire":           {own: []string{"core"}},
	"internal/sim":            {own: []string{"node", "core", "bucket/...", "internal/wire"}, other: []string{"github.com/anishathalye/porcupine"}},
	"internal/check":          {own: []string{"core"}},
	"internal/trace":          {own: []string{"core"}},
	"internal/tidy":           {},
	"internal/exchange":       {},
	"internal/program":        {},
	"internal/s3server":       {own: []string{"bucket/...", "internal/program"}},
	"internal/gcsserver":      {own: []string{"bucket/...", "internal/program"}},
	"internal/azserver":       {own: []string{"bucket/...", "internal/program"}, other: []string{"github.com/Azure/"}},
	"internal/inspect":        {own: []string{"core", "bucket/...", "peer", "internal/wire"}},
	"internal/sweep":          {own: []string{"core", "bucket", "internal/wire"}},
	"internal/demo":           {other: []string{"github.com/coder/websocket"}},
	"internal/bench":          {},
	"internal/e2e":            {},
	"internal/wall":           {},
}

func importRule(files []file) []string {
	var found []string
	for _, f := range goFiles(files, false) {
		may, ok := layout[f.dir()]
		if !ok {
			found = append(found, fmt.Sprintf("%s: folder %s is not in the layout of internal/tidy", f.path, f.dir()))
			continue
		}
		for _, path := range f.imports() {
			if !may.imports(path) {
				found = append(found, fmt.Sprintf("%s: %s may not import %s", f.path, f.dir(), path))
			}
		}
	}
	return found
}

func (a allowed) imports(path string) bool {
	if own, ok := strings.CutPrefix(path+"/", module+"/"); ok {
		own = strings.TrimSuffix(own, "/")
		return slices.ContainsFunc(a.own, func(o string) bool { return matches(o, own) })
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return a.std == nil || slices.Contains(a.std, path)
	}
	return slices.ContainsFunc(a.other, func(o string) bool { return strings.HasPrefix(path, o) })
}

// matches a folder of this module, "" for its root, with one pattern.
func matches(pattern, folder string) bool {
	if folder == "" {
		folder = "."
	}
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return folder == tree || strings.HasPrefix(folder, tree+"/")
	}
	return folder == pattern
}

func docRule(files []file) []string {
	first, documented := map[string]string{}, map[string]bool{}
	for _, f := range goFiles(files, false) {
		if first[f.dir()] == "" {
			first[f.dir()] = f.path
		}
		if f.tree.Doc != nil {
			documented[f.dir()] = true
		}
	}
	var found []string
	for dir, path := range first {
		if !documented[dir] {
			found = append(found, fmt.Sprintf("%s: no file of folder %s has a package comment", path, dir))
		}
	}
	slices.Sort(found)
	return found
}

// emptyNames say nothing about what is inside.
var emptyNames = []string{
	"util", "utils", "common", "helper", "helpers", "types", "manager", "managers", "misc",
}

func nameRule(files []file) []string {
	var found []string
	for _, f := range goFiles(files, true) {
		split := func(r rune) bool { return strings.ContainsRune("/_.", r) }
		words := append(strings.FieldsFunc(f.path, split), f.tree.Name.Name)
		for _, word := range words {
			if slices.Contains(emptyNames, word) {
				found = append(found, fmt.Sprintf("%s: the name %q says nothing", f.path, word))
				break
			}
		}
	}
	return found
}

func TestImports(t *testing.T) {
	hold(t, importRule)
	breaks(t, importRule, "core may not import time", "core/a.go", `package core; import "time"`)
	breaks(t, importRule, "core may not import "+module+"/bucket", "core/a.go", `package core; import "`+module+`/bucket"`)
	breaks(t, importRule, "not in the layout", "extra/a.go", `package extra`)
	for _, folder := range []string{"node", "peer", "gateway", "admin"} {
		for _, other := range []string{"node", "peer", "gateway", "admin"} {
			if folder != other {
				breaks(t, importRule, "may not import", folder+"/a.go", `package x; import "`+module+"/"+other+`"`)
			}
		}
		breaks(t, importRule, "may not import "+module, folder+"/a.go", `package x; import "`+module+`"`)
		keeps(t, importRule, folder+"/a.go", `package x; import ("time"; "net/http"; "`+module+`/core")`)
	}
	const sdk = "github.com/aws/aws-sdk-go-v2/service/s3"
	breaks(t, importRule, "may not import "+sdk, "bucket/mem/a.go", `package mem; import "`+sdk+`"`)
	breaks(t, importRule, "may not import "+sdk, "open.go", `package tenure; import "`+sdk+`"`)
	keeps(t, importRule, "bucket/s3/a.go", `package s3; import ("`+sdk+`"; "`+module+`/bucket")`)
	keeps(t, importRule, "core/a_test.go", `package core; import "time"`)
	keeps(t, importRule, "cmd/tenure/a.go", `package main; import ("`+module+`"; "`+module+`/internal/sim")`)
	breaks(t, importRule, "may not import", "cmd/tenure/a.go", `package main; import "`+module+`/node"`)
}

func TestPackageDocs(t *testing.T) {
	hold(t, docRule)
	breaks(t, docRule, "folder node", "node/a.go", `package node`, "node/b.go", `package node`)
	breaks(t, docRule, "folder node", "node/a.go", "// a comment\n\npackage node", "node/a_test.go", "// Tests\npackage node")
	keeps(t, docRule, "node/a.go", `package node`, "node/b.go", "// Package node acts.\npackage node")
}

func TestNames(t *testing.T) {
	hold(t, nameRule)
	breaks(t, nameRule, "util", "core/util.go", `package core`)
	breaks(t, nameRule, "helper", "core/helper_test.go", `package core`)
	breaks(t, nameRule, "common", "common/a.go", `package x`)
	breaks(t, nameRule, "manager", "x/a.go", `package manager`)
	keeps(t, nameRule, "core/commonplace.go", `package core`)
}
