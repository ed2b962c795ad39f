package sim

import (
	"os"
	"strconv"
	"testing"
	"time"
)

func TestDev(t *testing.T) {
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	n, _ := strconv.Atoi(os.Getenv("N"))
	var total Stats
	start := time.Now()
	var length time.Duration
	bad := 0
	for seed := from; seed < from+n; seed++ {
		cfg := Defaults
		cfg.Seed, cfg.For = uint64(seed), time.Minute
		if x, err := time.ParseDuration(os.Getenv("FOR")); err == nil {
			cfg.For = x
		}
		if os.Getenv("STORY") != "" {
			cfg.Story = os.Stderr
		}
		r := Run(cfg)
		total.Add(r.Stats)
		length += r.Length
		if r.Violation != nil {
			t.Errorf("seed %d: %v", seed, r.Violation)
			if bad++; bad > 10 || os.Getenv("FIRST") != "" {
				break
			}
		}
	}
	t.Logf("%+v", total)
	t.Logf("%.1f sim minutes in %s: %.0f per minute", length.Minutes(), time.Since(start), length.Minutes()/time.Since(start).Minutes())
}
