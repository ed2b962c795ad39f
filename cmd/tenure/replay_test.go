package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// aTrace is that of a takeover: bob finds alice dead, takes the cell "room" over at
// line 23, 1.2 s after it began, and drains.
const aTrace = "../../internal/trace/testdata/takeover.jsonl"

func (p *testProgram) replayed(t *testing.T, want int, args ...string) (out, err string) {
	t.Helper()
	code := p.run(append([]string{"replay"}, args...))
	if code != want {
		t.Fatalf("replay %q exits with %d, want %d\n%s%s", args, code, want, p.out, p.err)
	}
	return p.out.String(), p.err.String()
}

func TestReplay(t *testing.T) {
	out, _ := newTestProgram().replayed(t, exitDone, aTrace)
	if want := aTrace + ": 30 decisions of bob-8899aabbccddeeff replayed, identical\n"; out != want {
		t.Errorf("it says %q, want %q", out, want)
	}
}

func TestReplayExplains(t *testing.T) {
	for _, c := range []struct {
		args      []string
		has, lack string
	}{
		{[]string{"--explain", "--cell", "room"}, "it claims epoch 3 of room, if the record still has version \"r2\", replacing alice-00112233445566aa, which is dead (rule unchanged", "renewal"},
		{[]string{"--explain"}, "3 renewals, each applied", "claims epoch"},
		{[]string{"--explain", "--cell", "room", "--until", "13"}, "request 1 has ended", "request 2"},
		{[]string{"--explain", "--cell", "room", "--until", "12:00:00.141"}, "request 1 has ended", "request 2"},
		{[]string{"--explain", "--cell", "room", "--until", "2026-03-01T12:00:00.141Z"}, "request 1 has ended", "request 2"},
		{[]string{"--explain", "--cell", "room", "--until", "141ms"}, "request 1 has ended", "request 2"},
		{[]string{"--explain", "--cell", "room", "--until", "13"}, "12 decisions of bob-8899aabbccddeeff replayed, identical, stopped as asked", "claims"},
	} {
		out, _ := newTestProgram().replayed(t, exitDone, append(c.args, aTrace)...)
		if !strings.Contains(out, c.has) || strings.Contains(out, c.lack) {
			t.Errorf("%q says\n%s\nwant %q in it, and not %q", c.args, out, c.has, c.lack)
		}
	}
}

func TestReplayJSON(t *testing.T) {
	out, _ := newTestProgram().replayed(t, exitDone, "--json", "--explain", "--cell", "room", aTrace)
	var got replayJSON
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Files) != 1 || !got.Files[0].Identical || got.Files[0].Decisions != 30 || got.Files[0].Node != "bob-8899aabbccddeeff" {
		t.Errorf("files %+v", got.Files)
	}
	claims := 0
	for _, f := range got.Facts {
		if strings.HasPrefix(f.Text, "it claims epoch 3") && f.Epoch == 3 && f.Line == 23 && f.Cell == "room" {
			claims++
		}
	}
	if claims != 1 {
		t.Errorf("facts %+v", got.Facts)
	}
}

func TestReplayDraws(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.html")
	newTestProgram().replayed(t, exitDone, "--diagram", path, "--cell", "room", aTrace)
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "claim epoch 3, takeover", "dead: unchanged for 2.101s", "Tenure: the cell room", "prefers-color-scheme:dark", "In words"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the diagram does not have %q", want)
		}
	}
	for _, not := range []string{"http:", "https:", "<script", "src=", "@import", "url(http"} {
		if strings.Contains(string(page), not) {
			t.Errorf("the diagram has %q: it must need nothing else", not)
		}
	}
}

// What is wrong with a trace is said with its file and line, and fails.
func TestReplayFails(t *testing.T) {
	data, err := os.ReadFile(aTrace)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	edited := file("edited", strings.Replace(string(data), "not-connected", "not-mine", 1))
	_, msg := newTestProgram().replayed(t, exitFailed, edited)
	if !strings.Contains(msg, edited+": line 9: its checksum is") {
		t.Errorf("it says %q", msg)
	}
	out, _ := newTestProgram().replayed(t, exitFailed, "--json", edited)
	var got replayJSON
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Files[0].Identical || !strings.HasPrefix(got.Files[0].Error, "line 9: ") || got.Files[0].Decisions != 7 {
		t.Errorf("%v, %s", err, out)
	}
	torn := file("torn", string(data[:len(data)-10]))
	out, _ = newTestProgram().replayed(t, exitDone, torn)
	if !strings.Contains(out, "29 decisions") || !strings.Contains(out, "the file ends in the middle of line 31") {
		t.Errorf("it says %q", out)
	}
	_, msg = newTestProgram().replayed(t, exitFailed, filepath.Join(dir, "none"))
	if !strings.Contains(msg, "none: no such file") {
		t.Errorf("it says %q", msg)
	}
	_, msg = newTestProgram().replayed(t, exitFailed, "--explain", "--cell", "hall", aTrace)
	if !strings.Contains(msg, `nothing happened to a cell "hall"; there are 1: room`) {
		t.Errorf("it says %q", msg)
	}
}

func TestReplayUsage(t *testing.T) {
	_, msg := newTestProgram().replayed(t, exitUsage)
	if !strings.Contains(msg, "tenure replay FILE") {
		t.Errorf("it says %q", msg)
	}
	_, msg = newTestProgram().replayed(t, exitUsage, "--until", "tomorrow", aTrace)
	if !strings.Contains(msg, `--until is "tomorrow", must be`) {
		t.Errorf("it says %q", msg)
	}
}
