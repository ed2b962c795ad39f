// Package core decides everything that a Tenure node does. It is one pure state
// machine: [State.Step] takes the time and one event, and returns the effects
// to carry out. It has no I/O, clock, randomness, goroutine or dependence on
// map order, so the same inputs give the same effects, and what runs in
// production is the very code that can be simulated.
//
// The machine is composed of small ones, a file each: the node's own lease
// (lease.go), what is known of other nodes (peer.go), the store's clock
// (storeclock.go), cells (cell.go: resolution; route.go: those of other nodes;
// owned.go: claim, activation, eviction and release), requests (request.go) and
// the drain (drain.go).
// docs/protocol.md is the protocol in words; S1 and the like name its
// properties.
package core
