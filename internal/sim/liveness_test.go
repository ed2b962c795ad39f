package sim

import "testing"

// drifting lets the clocks of a calm fleet run as wrong as they may.
func drifting(w *world) {
	for _, m := range w.machines {
		m.rate = pick(w.rng, -boundRate, 0, boundRate)
	}
}

// L2, by observation: where the store's stamps prove nothing, because its clock has
// just been set, a dead node's cell is served to a request that comes TTL + slack
// after the first failed contact.
func TestServedAfterTheFirstFailedContact(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		w := calmFleet(seed, 2, drifting)
		p, q := w.procs[0], w.procs[1]
		w.serve(t, p, "room")
		if seed%2 == 0 {
			w.serve(t, q, "room") // it has a route
		}
		p.vanish()
		w.run(w.t + w.rng.Int64N(2*w.plan.ttl))
		w.store.skew -= 1000 * second // from here on every lease is young
		from := q.showing()
		q.request("room", w.plan.ttl, false, false)
		w.run(w.t + w.plan.ttl/2) // its dial fails, or its owner's lease is read
		w.run(w.t + q.whenShows(from) + q.rate.reach(w.plan.ttl+w.plan.slack+w.plan.ttl/6+100*millisecond))
		last := q.request("room", w.plan.ttl/6+second, false, false)
		w.run(w.t + w.plan.ttl)
		if w.bad != nil || !last.begun {
			t.Fatalf("seed %d: %v: a request was not served TTL + slack after the first failed contact: %+v", seed, w.bad, last.failure)
		}
		w.close()
	}
}

// L2, by age: served at the first look, once the lease is old enough.
func TestServedAtTheFirstLook(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		w := calmFleet(seed, 2, drifting)
		p, q := w.procs[0], w.procs[1]
		w.serve(t, p, "room")
		p.vanish()
		// The clocks may differ by slack a TTL each; 3 s for rounding, a cached Date, allowance.
		w.run(w.t + w.plan.ttl + 3*w.plan.slack + 3*second + 100*millisecond)
		last := q.request("room", w.plan.ttl/6+second, false, false)
		w.run(w.t + w.plan.ttl)
		if w.bad != nil || !last.begun {
			t.Fatalf("seed %d: %v: %+v", seed, w.bad, last.failure)
		}
		w.close()
	}
}

// L3: a released cell is served again within 2 round trips to the bucket.
func TestReleasedCellIsServedSoon(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		w := calmFleet(seed, 2, nil)
		p, q := w.procs[0], w.procs[1]
		w.serve(t, p, "room")
		if seed%2 == 0 {
			w.serve(t, q, "room") // it has a route
		}
		p.start(func() { p.n.Evict("room") })
		w.run(w.t + w.plan.ttl/2)
		asker := pick(w.rng, p, q)
		trips := 0
		count := func() {
			trips = p.watch.asks["cell get"] + p.watch.asks["cell replace"] + q.watch.asks["cell get"] + q.watch.asks["cell replace"]
		}
		count()
		before := trips
		a := asker.request("room", w.plan.ttl, false, false)
		w.run(w.t + w.plan.ttl/10)
		if count(); w.bad != nil || !a.begun || trips-before > 2 {
			t.Fatalf("seed %d: %v: begun %v after %d round trips: %+v", seed, w.bad, a.begun, trips-before, a.failure)
		}
		w.close()
	}
}
