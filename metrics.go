package tenure

import (
	"context"

	"github.com/tenure-go/tenure/admin"
	"github.com/tenure-go/tenure/bucket/pace"
)

// Metrics is what /metrics shows; docs/operations.md lists it.
func (o operator) Metrics(ctx context.Context) ([]admin.Metric, error) {
	i, err := o.Info(ctx)
	if err != nil {
		return nil, err
	}
	return append(nodeMetrics(i), o.n.buckets.paces.metrics()...), nil
}

func nodeMetrics(i admin.Info) []admin.Metric {
	seconds := func(ms int64) float64 { return float64(ms) / 1000 }
	all := []admin.Metric{
		admin.Gauge("tenure_node_info", "The session, as labels.").
			With(1, "node", i.Node, "name", i.Name, "zone", i.Zone, "fleet", i.Fleet, "version", i.Version),
		admin.Gauge("tenure_node_ready", "1 if the node holds its lease and does not drain.").With(flag(i.Ready)),
		admin.Gauge("tenure_node_draining", "1 while the node drains.").With(flag(i.Draining)),
		admin.Gauge("tenure_lease_authority_seconds", "How long the node may serve if it never renews again.").With(seconds(i.AuthorityMS)),
		admin.Gauge("tenure_lease_renewal_margin_seconds", "Authority that was left when the last renewal was confirmed.").With(seconds(i.RenewalMarginMS)),
		admin.Gauge("tenure_cells", "Cells in this node's hands.").
			With(float64(i.Owned), "state", "owned").With(float64(i.Resolving), "state", "resolving").With(float64(i.Leaving), "state", "leaving"),
		admin.Gauge("tenure_routes", "Cells known to be owned elsewhere.").With(float64(i.Routes)),
		admin.Gauge("tenure_requests", "Requests in hand, and those of them that wait for an owner.").
			With(float64(i.Requests), "state", "in hand").With(float64(i.Waiting), "state", "waiting"),
		admin.Gauge("tenure_peers", "Other nodes, observed or remembered as dead.").
			With(float64(i.Peers), "state", "observed").With(float64(i.Dead), "state", "dead"),
	}
	if i.StoreClockMS != nil {
		all = append(all, admin.Gauge("tenure_store_clock_offset_seconds",
			"The store's clock less this node's wall clock. Nothing is decided by it.").With(seconds(*i.StoreClockMS)))
	}
	return all
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (ps paces) metrics() []admin.Metric {
	requests := admin.Counter("tenure_bucket_requests_total", "Requests sent to the bucket, each try by itself.")
	took := admin.Counter("tenure_bucket_request_seconds_total", "How long they took together.")
	retries := admin.Counter("tenure_bucket_retries_total", "Reads and lists sent again.")
	unretried := admin.Counter("tenure_bucket_retries_denied_total", "Reads and lists not sent again, because the budget of retries was spent.")
	held := admin.Counter("tenure_bucket_held_total", "Requests that waited because the store had asked to slow down.")
	refused := admin.Counter("tenure_bucket_held_refused_total", "Requests not sent at all for that: no time was left.")
	gap := admin.Gauge("tenure_bucket_gap_seconds", "Time between requests now; 0 unless the store throttles.")
	for _, p := range []struct {
		name string
		pace *pace.Pace
	}{{"bucket", ps.cells}, {"lease-bucket", ps.leases}} {
		if p.pace == nil {
			continue
		}
		s := p.pace.Stats()
		for _, c := range s.Counts {
			labels := []string{"bucket", p.name, "operation", c.Kind, "key", c.Class, "outcome", c.Outcome}
			requests, took = requests.With(float64(c.N), labels...), took.With(c.Took.Seconds(), labels...)
		}
		retries, unretried = retries.With(float64(s.Retries), "bucket", p.name), unretried.With(float64(s.Unretried), "bucket", p.name)
		held, refused = held.With(float64(s.Held), "bucket", p.name), refused.With(float64(s.Refused), "bucket", p.name)
		gap = gap.With(s.Gap.Seconds(), "bucket", p.name)
	}
	return []admin.Metric{requests, took, retries, unretried, held, refused, gap}
}
