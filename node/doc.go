// Package node carries out what the core decides: it feeds events to the one
// deciding goroutine, performs the effects beside it, and keeps time. It has no
// opinion on ownership of its own.
//
// Everything that a [Node] touches is injected: clock, buckets, randomness, and
// the function that starts asynchronous work, so that a simulator drives the
// very same code.
package node
