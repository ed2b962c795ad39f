// Package node carries out what the core decides: it gives it events, one at a
// time, performs the effects, and keeps time. It has no opinion on ownership of
// its own.
//
// Everything that a [Node] touches is injected: clock, buckets, randomness, and
// the function that starts asynchronous work, so that a simulator drives the
// very same code.
package node
