package main

import (
	"encoding/json"
	"testing"
)

func TestCheck(t *testing.T) {
	p := newTestProgram()
	if code := p.run([]string{"check", "--faults", "none", "--json"}); code != exitDone {
		t.Fatalf("exit code %d: %s", code, p.err)
	}
	var got checkTotal
	if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil {
		t.Fatalf("%v in %q", err, p.out)
	}
	if !got.Complete || got.States < 10_000 || got.Violations != 0 || got.Depth == 0 || len(got.Runs) != 1 {
		t.Errorf("%+v", got)
	}
}
