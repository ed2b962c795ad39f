package tidy

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// machineWords are spelled in two parts, so that this file does not break its
// own rule.
var machineWords = []string{
	"/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/main", "/wo" + "rk/shared",
	"proxy." + "golang.org", "registry." + "npmjs.org", "files." + "pythonhosted.org",
}

// machineRule: nothing that is true on one machine only is tracked.
func machineRule(files []file) []string {
	words := append(registries(), machineWords...)
	var found []string
	for _, f := range files {
		if f.binary() {
			continue
		}
		n := 0
		for line := range strings.Lines(string(f.body)) {
			n++
			for _, word := range words {
				if strings.Contains(line, word) {
					found = append(found, fmt.Sprintf("%s:%d: names %s", f.path, n, word))
					break
				}
			}
		}
	}
	return found
}

// registries are the hosts that this machine gets its packages from.
func registries() []string {
	lists := []string{os.Getenv("PIP_INDEX_URL"), os.Getenv("NPM_CONFIG_REGISTRY"), os.Getenv("npm_config_registry")}
	if out, err := exec.Command("go", "env", "GOPROXY").Output(); err == nil {
		lists = append(lists, strings.TrimSpace(string(out)))
	}
	var hosts []string
	for _, list := range lists {
		for _, item := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '|' }) {
			u, err := url.Parse(item)
			local := err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1")
			if err == nil && u.Host != "" && (!local || u.Port() != "") {
				hosts = append(hosts, u.Host)
			}
		}
	}
	return hosts
}

var (
	mdLink  = regexp.MustCompile(`\]\(<?([^)>\s]+)>?[^)]*\)`)
	mdFence = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	mdCode  = regexp.MustCompile("`[^`\n]*`")
	scheme  = regexp.MustCompile(`^([a-z][a-z0-9+.-]*:|//|#)`)
)

// linkRule: a relative link in a page leads to a file or folder that is here.
func linkRule(files []file) []string {
	here := map[string]bool{".": true}
	for _, f := range files {
		for p := f.path; p != "."; p = path.Dir(p) {
			here[p] = true
		}
	}
	var found []string
	for _, f := range files {
		if path.Ext(f.path) != ".md" || inTestdata(f.path) {
			continue
		}
		text := mdCode.ReplaceAllString(mdFence.ReplaceAllString(string(f.body), ""), "")
		for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
			if !scheme.MatchString(m[1]) && !here[target(f, m[1])] {
				found = append(found, fmt.Sprintf("%s: the link to %s leads nowhere", f.path, m[1]))
			}
		}
	}
	return found
}

// mdTest is a link to a test by its name.
var mdTest = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)]+)\\)")

// testLinkRule: a page that names a test as evidence leads to the file that has it.
func testLinkRule(files []file) []string {
	var found []string
	for _, f := range files {
		if path.Ext(f.path) != ".md" || inTestdata(f.path) {
			continue
		}
		for _, m := range mdTest.FindAllStringSubmatch(string(f.body), -1) {
			if to := target(f, m[2]); !strings.Contains(contents(files, to), "func "+m[1]+"(t *testing.T)") {
				found = append(found, fmt.Sprintf("%s: there is no %s in %s", f.path, m[1], to))
			}
		}
	}
	return found
}

func target(from file, link string) string {
	link, _, _ = strings.Cut(link, "#")
	if plain, err := url.PathUnescape(link); err == nil {
		link = plain
	}
	if rest, ok := strings.CutPrefix(link, "/"); ok {
		return path.Clean(rest)
	}
	return path.Join(from.dir(), link)
}

var required = regexp.MustCompile(`(?m)^(?:require)?\s+([^\s(]+\.[^\s]+) v\S+$`)

// dependencyRule: HACKING.md says of every direct dependency why it is there.
func dependencyRule(files []file) []string {
	mod, pages := contents(files, "go.mod"), contents(files, "HACKING.md")
	var found []string
	for _, m := range required.FindAllStringSubmatch(mod, -1) {
		if !strings.Contains(pages, m[1]) {
			found = append(found, fmt.Sprintf("go.mod: HACKING.md does not say why %s is needed", m[1]))
		}
	}
	if pages == "" {
		found = append(found, "HACKING.md: there is none; it lists every direct dependency with its reason")
	}
	return found
}

func contents(files []file, name string) string {
	i := slices.IndexFunc(files, func(f file) bool { return f.path == name })
	if i < 0 {
		return ""
	}
	return string(files[i].body)
}

func TestNothingOfOneMachine(t *testing.T) {
	hold(t, machineRule)
	for _, word := range append(registries(), machineWords...) {
		breaks(t, machineRule, "a.md:2: names ", "a.md", "fine\nsee "+word+"x\n")
	}
	keeps(t, machineRule, "a.md", "/rooted /homer 127.0.0.1", "b.bin", "\x00/ro"+"ot/")
}

func TestLinks(t *testing.T) {
	hold(t, linkRule)
	breaks(t, linkRule, "gone.md", "README.md", "see [this](docs/gone.md#part) and [that](https://example.com/x.md)")
	breaks(t, linkRule, "../a.go", "docs/a.md", "[a](../a.go) [b](../b.go)", "b.go", "package b")
	breaks(t, linkRule, "x.png", "a.md", "![picture](x.png \"title\")")
	keeps(t, linkRule, "docs/a.md", "[b](b.md) [c](../core/) [d](/docs/b.md) [e](#x)\n```\n[f](no)\n```\n`[g](no)`",
		"docs/b.md", "", "core/c.go", "package core")
}

func TestNamedTestsExist(t *testing.T) {
	hold(t, testLinkRule)
	const test = "package a\n\nfunc TestA(t *testing.T) {}\n"
	breaks(t, testLinkRule, "no TestB in a_test.go", "docs/a.md", "[`TestB`](../a_test.go)", "a_test.go", test)
	keeps(t, testLinkRule, "docs/a.md", "[`TestA`](../a_test.go) [TestB](../a_test.go) `TestC`", "a_test.go", test)
}

func TestDependenciesAreJustified(t *testing.T) {
	hold(t, dependencyRule)
	const mod = "module m\n\ngo 1.26\n\nrequire (\n\texample.com/a v1.0.0\n\texample.com/b v1.0.0 // indirect\n)\n"
	breaks(t, dependencyRule, "example.com/a", "go.mod", mod, "HACKING.md", "nothing")
	breaks(t, dependencyRule, "example.com/c", "go.mod", "module m\n\nrequire example.com/c v1.0.0\n", "HACKING.md", "nothing")
	breaks(t, dependencyRule, "there is none", "go.mod", "module m\n")
	keeps(t, dependencyRule, "go.mod", mod, "HACKING.md", "- example.com/a: because")
}
