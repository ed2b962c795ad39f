package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSim(t *testing.T) {
	p := newTestProgram()
	code := p.run(strings.Fields("sim --seed 3 --seeds 2 --minutes 0.1 --nodes 3 --cells 5 --rate 20 --json"))
	var got struct {
		Seeds      int      `json:"seeds"`
		SimMinutes float64  `json:"sim_minutes"`
		Seconds    float64  `json:"seconds"`
		Violations int      `json:"violations"`
		Failures   []string `json:"failures"`
	}
	if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil || code != exitDone {
		t.Fatalf("exit code %d, %v: %s%s", code, err, p.out, p.err)
	}
	if got.Seeds != 2 || got.SimMinutes < 0.2 || got.Seconds <= 0 || got.Violations != 0 || got.Failures == nil {
		t.Errorf("got %+v", got)
	}
}

func TestSimSummary(t *testing.T) {
	p := newTestProgram()
	p.env["TENURE_MINUTES"] = "0.05"
	code := p.run(strings.Fields("sim --seed 3 --faults crash,pause --only 1,2"))
	if code != exitDone || !strings.Contains(p.out.String(), "1 seeds: ") || !strings.HasSuffix(p.out.String(), "\n0 violations\n") {
		t.Errorf("exit code %d: %s%s", code, p.out, p.err)
	}
}

func TestSimUsage(t *testing.T) {
	for args, says := range map[string]string{
		"--seeds 0": "--seeds is 0", "--minutes 0": "--minutes is 0", "--nodes 0": "--nodes is 0",
		"--cells 10001": "must be from 0 to 10000", "--cells -1": "--cells is -1", "--rate -1": "--rate is -1", "--jobs -1": "--jobs is -1",
		"--faults crash,flood": `"flood", which is none of blind, contended, crash`, "--only 1,x": `"x", which is not the number`,
	} {
		p := newTestProgram()
		code := p.run(append([]string{"sim"}, strings.Fields(args)...))
		if code != exitUsage || !strings.Contains(p.err.String(), says) {
			t.Errorf("%s: exit code %d: %s", args, code, p.err)
		}
	}
}
