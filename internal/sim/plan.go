package sim

import (
	"math/rand/v2"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// plan is what a seed fixes for its whole run.
type plan struct {
	ttl, slack     int64
	bound          bool // clocks run at the bound
	http           bool // the store rounds its stamps, and stamps an answer late
	bodyVersions   bool // versions derive from the body
	storeRate      rate
	gap            int64 // between faults, on average
	leaseOnly      bool  // only lease traffic fails, so that L4 can be judged
	hot            bool  // most requests are for few cells
	idleAfter      time.Duration
	failoverWait   time.Duration
	requestTimeout time.Duration
	drainTimeout   time.Duration
	maxCells       int
	maxActivations int
	maxReleases    int
	maxQueue       int
	maxRoutes      int
	maxPeers       int
}

func makePlan(r *rand.Rand, cfg Config) plan {
	var p plan
	ttl := pick(r, 10, 10, 10, 10, 4, 2)
	p.ttl = int64(ttl) * second
	p.slack = p.ttl / 20
	p.bound = r.IntN(2) == 0
	p.http = r.IntN(4) > 0
	p.bodyVersions = p.http && r.IntN(2) == 0
	p.storeRate = rate(r.IntN(int(2*boundRate+1))) - boundRate
	if p.bound {
		p.storeRate = pick(r, -boundRate, 0, boundRate)
	}
	p.gap = p.ttl * int64(pick(r, 1, 2, 4, 10, 30)) / 10
	p.leaseOnly = r.IntN(16) == 0 && ttl >= 4
	p.hot = r.IntN(2) == 0
	scale := func(of ...int64) time.Duration { return time.Duration(p.ttl * pick(r, of...) / 10) }
	p.idleAfter = scale(0, 3, 20)
	p.failoverWait = scale(0, 0, 7, 30)
	p.requestTimeout = scale(5, 30)
	p.drainTimeout = scale(7, 30)
	p.maxCells = pick(r, 0, 0, 1, 3, 40)
	p.maxActivations, p.maxReleases = pick(r, 1, 2, 8, 16), pick(r, 1, 4, 128)
	p.maxQueue, p.maxRoutes = pick(r, 4, 200, 10000), pick(r, 2, 20, 1000)
	p.maxPeers = pick(r, 24, 64) + cfg.Nodes
	if cfg.Cells > 1000 { // else nothing but queues would be seen
		p.maxActivations, p.maxQueue = 16, 10000
	}
	return p
}

// limits changes settings that a node does not take from its Config.
func (p plan) limits(c *core.Config) {
	c.MaxRoutes, c.MaxPeers = p.maxRoutes, p.maxPeers
}

func (p plan) apply(c *node.Config) {
	c.TTL = time.Duration(p.ttl)
	c.IdleAfter, c.FailoverWait = p.idleAfter, p.failoverWait
	c.RequestTimeout, c.DrainTimeout = p.requestTimeout, p.drainTimeout
	c.MaxCells, c.MaxActivations, c.MaxReleases, c.MaxQueue = p.maxCells, p.maxActivations, p.maxReleases, p.maxQueue
	c.Limits = p.limits
}
