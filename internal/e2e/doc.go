// Package e2e tests fleets from the outside: it builds the tenure program, runs
// it as real processes over a sqlite: bucket and over real S3, Cloud Storage and
// Azure servers, kills, freezes, drains and restarts them under load, and judges
// every answer that a client got.
//
// The limits in the tests are the protocol's own (docs/protocol.md, L1 to L3)
// with a lease TTL of two seconds (five on Cloud Storage and Azure), plus a fixed
// allowance for dialing, claiming and a busy machine.
//
// With TENURE_E2E_SKEW=1 the nodes of a fleet have wall clocks that are wrong by
// an hour, in different directions. Everything must hold all the same.
package e2e
