package tenure_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenure-go/tenure"
	"github.com/tenure-go/tenure/internal/trace"
)

// A node records what it decides, to its end, and keeps the trace of the one before.
func TestTrace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trace")
	traced := func(c *tenure.Config) { c.Trace = path }
	var ids [2]string
	for i := range ids {
		n := start(t, dir, "a", traced)
		own, err := n.Acquire(t.Context(), "billing")
		if err != nil {
			t.Fatal(err)
		}
		if err := own.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ids[i] = n.ID()
		stop(t, n)
	}
	for i, name := range []string{path + ".1", path} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var narrator *trace.Narrator
		p, err := trace.Replay(f, nil, func(h trace.Header) func(trace.Step) bool {
			narrator = trace.NewNarrator(0, h)
			return func(s trace.Step) bool { narrator.See(s); return true }
		})
		if err != nil || p.Difference != nil || p.Torn || string(p.Node) != ids[i] || p.Header.Name != "a" {
			t.Fatalf("%s: %+v, %v", name, p, err)
		}
		facts := narrator.Facts()
		if last := facts[len(facts)-1]; last.Kind != trace.Ended || last.Text != "the session ends: drain" {
			t.Errorf("%s ends with %+v", name, last)
		}
	}
}

func TestTraceCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	_, err := tenure.Start(t.Context(), tenure.Config{Bucket: "sqlite:" + filepath.Join(dir, "fleet.db"), Trace: filepath.Join(dir, "no", "trace")})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "trace: ") {
		t.Errorf("the error is %v", err)
	}
}
