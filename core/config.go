package core

import "fmt"

// Config fixes a State's settings. All Times are durations in the same unit.
// docs/protocol.md has how each follows from the TTL in production; nothing here
// relies on that, so a test may use small numbers.
type Config struct {
	// TTL is the fleet's lease time to live. Authority ends TTL-Slack after
	// the anchor of the last applied lease write.
	TTL Time
	// Slack is what clocks may gain or lose per TTL. The holder stops this much
	// before the TTL is over, an observer waits this much longer (S3).
	Slack Time
	// Renew is the time between renewals. It also paces what may be tried again
	// without an end: reads of owners that stay out of reach, probes, pauses.
	Renew Time
	// LeaseDeadline bounds one lease operation; a quarter of the authority
	// left bounds it too.
	LeaseDeadline Time
	// RetryStep is the shortest pause before something is tried again. Pauses that
	// grow start from it.
	RetryStep Time
	// OpDeadline bounds one operation on an ownership record.
	OpDeadline Time
	// DialDeadline bounds a probe of a peer.
	DialDeadline Time
	// ActivateDeadline and DeactivateDeadline bound the application's hooks.
	ActivateDeadline, DeactivateDeadline Time
	// DrainDeadline bounds a drain, from its start.
	DrainDeadline Time

	// Rounding is how coarse the store's stamps are: one second over HTTP, zero for
	// a store that stamps its own fine-grained clock.
	Rounding Time
	// Allowance is what a store's clock may be off between its own stamps.
	Allowance Time

	// IdleAfter is how long a cell stays without a request; 0: for ever.
	IdleAfter Time
	// FailoverWait is how long a request waits for an owner that is
	// unreachable and not provably dead; 0: it fails at once.
	FailoverWait Time

	// MaxCells bounds resident cells; 0: no limit.
	MaxCells int
	// MaxActivations bounds cells being resolved, claimed and activated.
	MaxActivations int
	// MaxReleases bounds cells on their way out.
	MaxReleases int
	// MaxQueue bounds requests waiting for an owner.
	MaxQueue int
	// MaxRoutes bounds cells known to be elsewhere.
	MaxRoutes int
	// MaxPeers bounds nodes whose leases are observed, and, separately, nodes
	// remembered as dead.
	MaxPeers int

	// Protocol is this node's peer protocol.
	Protocol int
}

// MaxAcquireReconciles is how often one acquisition goes on, by what the record
// says, after a claim with an ambiguous outcome; after one more it gives up.
const MaxAcquireReconciles = 3

func (c Config) check() error {
	for _, f := range []struct {
		name string
		v    Time
	}{
		{"TTL", c.TTL}, {"Slack", c.Slack}, {"Renew", c.Renew}, {"LeaseDeadline", c.LeaseDeadline},
		{"RetryStep", c.RetryStep}, {"OpDeadline", c.OpDeadline}, {"DialDeadline", c.DialDeadline},
		{"ActivateDeadline", c.ActivateDeadline}, {"DeactivateDeadline", c.DeactivateDeadline},
		{"DrainDeadline", c.DrainDeadline},
	} {
		if f.v < 1 {
			return fmt.Errorf("core: %s is %d, must be at least 1", f.name, f.v)
		}
	}
	if c.Slack+c.Renew >= c.TTL {
		return fmt.Errorf("core: TTL %d leaves no authority beyond renewal %d and slack %d", c.TTL, c.Renew, c.Slack)
	}
	for _, f := range []struct {
		name string
		v    int
	}{
		{"MaxActivations", c.MaxActivations}, {"MaxReleases", c.MaxReleases}, {"MaxQueue", c.MaxQueue},
		{"MaxRoutes", c.MaxRoutes}, {"MaxPeers", c.MaxPeers},
	} {
		if f.v < 1 {
			return fmt.Errorf("core: %s is %d, must be at least 1", f.name, f.v)
		}
	}
	return nil
}
