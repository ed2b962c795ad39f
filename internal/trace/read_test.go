package trace

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/core"
)

// lines is the golden trace, whose last line is a whole one.
func lines(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "takeover.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
}

func replayText(text string) (*Replayed, error) {
	return Replay(strings.NewReader(text), nil, nil)
}

// resummed gives lines their right checksums, as somebody who edits on purpose would.
func resummed(all []string) string {
	var out bytes.Buffer
	sum := uint32(0)
	for _, l := range all {
		l = strings.TrimSuffix(l, "\n")
		body := l[:len(l)-sumSize]
		sum = crc32.Update(sum, castagnoli, []byte(body))
		out.WriteString(body + sumField + sumText(sum) + sumEnd + "\n")
	}
	return out.String()
}

// Whatever was done to a trace is found, with the line.
func TestDamageIsFound(t *testing.T) {
	l := lines(t)
	join := func(parts ...[]string) string {
		var all []string
		for _, p := range parts {
			all = append(all, p...)
		}
		return strings.Join(all, "")
	}
	edit := func(i int, from, to string) string {
		if !strings.Contains(l[i], from) {
			t.Fatalf("line %d does not hold %s", i+1, from)
		}
		return join(l[:i], []string{strings.Replace(l[i], from, to, 1)}, l[i+1:])
	}
	for _, c := range []struct{ name, text, want string }{
		{"edited", edit(8, "not-connected", "not-mine"), "line 9: its checksum is"},
		{"edited header", edit(0, "v1.0.0", "v1.0.1"), "line 1: its checksum is"},
		{"edited checksum", edit(8, `"sum":"`, `"sum":"0`), "line 9: the line does not end with its checksum"},
		{"deleted", join(l[:5], l[6:]), "line 6: its checksum is"},
		{"repeated", join(l[:5], l[4:]), "line 6: its checksum is"},
		{"reordered", join(l[:5], l[6:7], l[5:6], l[7:]), "line 6: its checksum is"},
		{"cut in the middle", join(l[:5], []string{l[5][:40] + "\n"}, l[6:]), "line 6: the line does not end with its checksum"},
		{"without its header", join(l[1:]), "line 1: this is not the beginning of a trace"},
		{"no trace", "hello\n", "line 1: this is not a trace: it is not a JSON object"},
		{"empty", "", "the trace holds no whole line"},
		{"a torn header", l[0][:100], "the trace holds no whole line"},
		{"another format", strings.Replace(join(l), `"tenure_trace":1`, `"tenure_trace":9`, 1), "line 1: the trace has format 9, this version reads 1; replay it with the version that recorded it, v1.0.0"},
		{"an unknown setting", resummed(append([]string{strings.Replace(l[0], `"ttl"`, `"colour":1,"ttl"`, 1)}, l[1:]...)), `line 1: the field "colour" is not known`},
		{"a bad setting", resummed(append([]string{strings.Replace(l[0], `"slack":100000000`, `"slack":0`, 1)}, l[1:]...)), "line 1: core: Slack is 0"},
		{"an unknown event", resummed(append(append(l[:6:6], strings.Replace(l[6], `"arrive"`, `"sing"`, 1)), l[7:]...)), `line 7: an event of the kind "sing" is not known`},
		{"no snapshot", resummed(append([]string{strings.Replace(l[0], `"segment":1`, `"segment":2`, 1)}, l[1:]...)), "line 2: a decision without a state before it"},
	} {
		p, err := replayText(c.text)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q", c.name, err, c.want)
		}
		if strings.HasPrefix(c.want, "line 6") && p.Decisions != 4 {
			t.Errorf("%s: %d decisions were replayed before it, want 4", c.name, p.Decisions)
		}
	}
}

// A trace that ends in the middle of a line, as after a crash, is good up to there.
func TestTornEnd(t *testing.T) {
	l := lines(t)
	p, err := replayText(strings.Join(l[:20], "") + l[20][:50])
	if err != nil || !p.Torn || p.Decisions != 19 || p.Lines != 20 || p.Difference != nil {
		t.Errorf("%+v, %v", p.Result, err)
	}
	p, err = replayText(strings.Join(l[:20], ""))
	if err != nil || p.Torn || p.Decisions != 19 {
		t.Errorf("%+v, %v", p.Result, err)
	}
}

// A decision that the core takes otherwise is shown with what was recorded.
func TestDifference(t *testing.T) {
	l := lines(t)
	l[22] = strings.Replace(l[22], `"epoch":3`, `"epoch":4`, 1)
	p, err := replayText(resummed(l))
	if err != nil || p.Difference == nil {
		t.Fatalf("%+v, %v", p, err)
	}
	d := p.Difference
	if d.Line != 23 || !strings.Contains(d.Event, `"on":"owner-read"`) || len(d.Recorded) != 1 || len(d.Computed) != 1 {
		t.Fatalf("%+v", d)
	}
	if !strings.Contains(d.Recorded[0], `"epoch":4`) || !strings.Contains(d.Computed[0], `"epoch":3`) {
		t.Errorf("%s", d)
	}
	for _, want := range []string{"line 23: ", "  event     {", "  recorded  {", "  computed  {"} {
		if !strings.Contains(d.String(), want) {
			t.Errorf("it is said as\n%s", d)
		}
	}
}

// An event that cannot be is an error of its line, also one that breaks the core.
func TestCorePanicIsOfItsLine(t *testing.T) {
	l := lines(t)
	text := resummed(append(l[:27:27], `{"snapshot":{"config":{"ttl":1}},"sum":"00000000"}`))
	if _, err := replayText(text); err == nil || !strings.HasPrefix(err.Error(), "line 28: core: ") {
		t.Errorf("the error is %v", err)
	}
	p := &Replayed{Result: Result{}, state: new(core.State)}
	var bad *LineError
	err := p.take(5, Entry{Decision: &Decision{Event: nil}}, nil)
	if err == nil || errors.As(err, &bad) || !strings.Contains(err.Error(), "the core broke down") {
		t.Errorf("the error is %v", err)
	}
}
