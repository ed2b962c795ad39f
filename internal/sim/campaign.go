package sim

import (
	"sync"
	"time"
)

// Campaign runs many seeds on all cores, each alone.
type Campaign struct {
	Config     // of which Seed is the first
	Seeds  int // how many
	Jobs   int // at once
	Stop   <-chan struct{}
	Failed func(Failure) // is told of each failure, one at a time
	Shrink bool          // failures are made shorter first
}

// Failure is one seed that broke a promise.
type Failure struct {
	Seed      uint64 `json:"seed"`
	Violation string `json:"violation"`
	At        string `json:"at"`
	// Command shows it again.
	Command string   `json:"command"`
	Faults  []string `json:"faults"` // that it takes
}

// Report is what a campaign came to.
type Report struct {
	Seeds      int     `json:"seeds"`
	SimMinutes float64 `json:"sim_minutes"`
	Seconds    float64 `json:"seconds"`
	Violations int     `json:"violations"`
	// PerMinute is how many minutes of a fleet's life one core simulates in a
	// minute; in BusyPerMinute only those count in which there are requests and
	// faults.
	PerMinute     float64   `json:"fleet_minutes_per_core_minute"`
	BusyPerMinute float64   `json:"busy_fleet_minutes_per_core_minute"`
	Failures      []Failure `json:"failures"`
	Stats         Stats     `json:"stats"`

	spent, busy time.Duration // of one core each
}

// progress is shared by the workers of a campaign.
type progress struct {
	sync.Mutex
	next   int
	report Report
	began  time.Time
}

// Run runs the campaign. Its progress may be asked for meanwhile.
func (c Campaign) Run(watch func(now func() Report)) Report {
	p := &progress{began: time.Now(), report: Report{Failures: []Failure{}}}
	if watch != nil {
		watch(p.now)
	}
	var wg sync.WaitGroup
	for range max(1, c.Jobs) {
		wg.Go(func() {
			for seed, ok := c.take(p); ok; seed, ok = c.take(p) {
				c.one(p, seed)
			}
		})
	}
	wg.Wait()
	return p.now()
}

// take takes the next seed.
func (c Campaign) take(p *progress) (uint64, bool) {
	select {
	case <-c.Stop:
		return 0, false
	default:
	}
	p.Lock()
	defer p.Unlock()
	if p.next >= c.Seeds {
		return 0, false
	}
	p.next++
	return c.Seed + uint64(p.next-1), true
}

// one runs a seed.
func (c Campaign) one(p *progress, seed uint64) {
	cfg := c.Config
	cfg.Seed = seed
	from := time.Now()
	r := Run(cfg)
	p.add(r, min(cfg.For, r.Length), time.Since(from))
	if r.Violation == nil {
		return
	}
	if c.Shrink {
		cfg, r = Shrink(cfg, r)
	}
	f := Failure{Seed: seed, Violation: r.Violation.Property + ": " + r.Violation.Text, Command: cfg.Command(), Faults: []string{}}
	f.At = time.Duration(r.Violation.At).String()
	for _, x := range r.Faults {
		f.Faults = append(f.Faults, x.String())
	}
	p.Lock()
	defer p.Unlock()
	p.report.Violations++
	p.report.Failures = append(p.report.Failures, f)
	if c.Failed != nil {
		c.Failed(f)
	}
}

func (p *progress) add(r Result, busy, took time.Duration) {
	p.Lock()
	defer p.Unlock()
	p.report.Seeds++
	p.report.SimMinutes += r.Length.Minutes()
	p.report.busy += busy
	p.report.spent += took
	p.report.Stats.Add(r.Stats)
}

// now is the report so far.
func (p *progress) now() Report {
	p.Lock()
	defer p.Unlock()
	r := p.report
	r.Seconds = time.Since(p.began).Seconds()
	if r.spent > 0 {
		r.PerMinute = r.SimMinutes / r.spent.Minutes()
		r.BusyPerMinute = r.busy.Minutes() / r.spent.Minutes()
	}
	return r
}
