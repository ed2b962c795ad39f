// Package variants holds deliberately broken variants of the product, in test files
// only: each is a small edit of its source, and each must be caught by the model
// checker, the simulator or a named test. What catches nothing proves nothing.
package variants

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var only = flag.String("variant", "", "run only this variant, and tell the story of what it breaks")

// variant is one mistake that somebody could make.
type variant struct {
	name  string
	edits []edit
	// by is what must catch it; every one of these must.
	by []catcher
}

// edit replaces one piece of a file, which must be there once.
type edit struct{ file, old, new string }

// catcher is one way to find a mistake.
type catcher struct {
	// Check: a search of the model checker with these faults, and rates, stamps or
	// evict among them.
	Check string `json:",omitempty"`
	// Sim: at most so many seeds of the simulator.
	Sim int `json:",omitempty"`
	// pkg and test: a test that must fail.
	pkg, test string
}

// caught is what a catcher says.
type caught struct {
	Violation, After, Story string
}

func TestVariants(t *testing.T) {
	if testing.Short() || os.Getenv("TENURE_VARIANTS") == "" {
		t.Skip("takes minutes: set TENURE_VARIANTS=1")
	}
	start := time.Now()
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-52s %-34s %s\n", "variant", "caught by", "after")
	for _, v := range variants {
		if *only != "" && *only != v.name {
			continue
		}
		t.Run(strings.ReplaceAll(v.name, " ", "_"), func(t *testing.T) {
			overlay := v.overlay(t)
			for _, c := range v.by {
				got := c.run(t, overlay)
				if got.Violation == "" {
					t.Errorf("%s is not caught by %s", v.name, c)
					continue
				}
				if *only != "" {
					t.Logf("%s\n%s", got.Violation, got.Story)
				}
				fmt.Fprintf(&table, "%-52s %-34s %s: %.90s\n", v.name, c, got.After, got.Violation)
			}
		})
	}
	t.Logf("%s\n%d variants in %s", table.String(), len(variants), time.Since(start).Round(time.Second))
}

// What is not broken is not caught, whichever way it is looked at.
func TestNothingIsCaughtUnbroken(t *testing.T) {
	if os.Getenv("TENURE_VARIANTS") == "" {
		t.Skip("takes minutes: set TENURE_VARIANTS=1")
	}
	overlay := variant{}.overlay(t)
	seen := map[catcher]bool{}
	for _, v := range variants {
		for _, c := range v.by {
			if c.test == "" || seen[c] {
				continue // searches and seeds are run to the end elsewhere
			}
			seen[c] = true
			if got := c.run(t, overlay); got.Violation != "" {
				t.Errorf("%s fails on what is not broken: %s", c, got.Violation)
			}
		}
	}
}

func (c catcher) String() string {
	switch {
	case c.Check != "":
		return "check " + c.Check
	case c.Sim > 0:
		return "sim"
	}
	return c.test
}

// overlay writes the edited files, and what tells the compiler to read them instead
// of the real ones.
func (v variant) overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace, text := map[string]string{}, map[string]string{}
	for _, e := range v.edits {
		path, err := filepath.Abs(filepath.Join("../..", e.file))
		if err != nil {
			t.Fatal(err)
		}
		if text[path] == "" {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text[path] = string(src)
		}
		if n := strings.Count(text[path], e.old); n != 1 {
			t.Fatalf("%s: %q is %d times in %s, must be there once: the edit has to follow the code", v.name, e.old, n, e.file)
		}
		text[path] = strings.Replace(text[path], e.old, e.new, 1)
	}
	for path, src := range text {
		edited := filepath.Join(dir, strings.ReplaceAll(filepath.Base(filepath.Dir(path))+"_"+filepath.Base(path), " ", "_"))
		write(t, edited, []byte(src))
		replace[path] = edited
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	write(t, file, list)
	return file
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run builds the broken product and lets the catcher loose on it.
func (c catcher) run(t *testing.T, overlay string) caught {
	t.Helper()
	pkg := c.pkg
	if c.test == "" {
		pkg = "./internal/variants"
	}
	program := filepath.Join(filepath.Dir(overlay), filepath.Base(pkg)+".test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, pkg)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if c.test != "" {
		return c.runTest(program)
	}
	spec, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), catchEnv+"="+string(spec))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	var got caught
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v in %q", c, err, out)
	}
	return got
}

func (c catcher) runTest(program string) caught {
	cmd := exec.Command(program, "-test.run", "^"+c.test+"$", "-test.timeout", "2m")
	cmd.Dir = filepath.Join("../..", c.pkg)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return caught{}
	}
	words := strings.Join(strings.Fields(string(out)), " ")
	return caught{Violation: words, After: "the test fails", Story: string(out)}
}
