// Package sim runs a whole fleet in one goroutine, from one seed: real nodes
// (package node, with the core and the records' own encoding) over one bucket in
// memory, while clocks drift, processes stop and die, messages are lost, and the
// bucket does everything that it is allowed to do. It judges all the while whether
// what docs/protocol.md promises holds.
//
// Everything that a node starts is a coroutine here, and one scheduler decides
// which goes on, so strictly one thing runs at a time and the same seed gives the
// same run. A process can be stopped wherever it reads its clock, before the
// reading: so time passes between the arrival of an event and its step, and between
// a decision and its act. The one point left out is the one that the protocol leaves
// out: between the last comparison with the clock and the act after it.
//
// What goes wrong is planned: a seed gives a numbered list of faults, each with a
// time, a target and draws of its own, so that one can be left out without changing
// the others. That is how a run that fails is shrunk.
//
// The start-up test of the bucket is run without faults, but for a bucket that cannot
// be reached: it measures by the real clock.
package sim
