package main

import (
	"slices"
	"testing"
)

// What is meant for one node is not given to each of several: they would all write
// one trace.
func TestChildEnv(t *testing.T) {
	got := childEnv([]string{"PATH=/bin", "TENURE_TRACE=t", "TENURE_ADVERTISE=h:1", "TENURE_LEASE_TTL=2s", "TENURE_ADMIN_TOKEN=s"})
	if want := []string{"PATH=/bin", "TENURE_LEASE_TTL=2s"}; !slices.Equal(got, want) {
		t.Errorf("the children get %q, want %q", got, want)
	}
}
