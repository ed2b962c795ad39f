// Package trace records every decision of a node and replays it through the same
// core. A trace is a text file: a header, then one JSON line for each event with
// its effects. Each line ends with a checksum that covers it and all lines before
// it, so that an edit, a deletion or a reordering is found, with its line. It is
// no signature: it finds accidents.
//
// The file is rotated. A file that is not a session's first begins with a snapshot
// of the core's state, so that each can be replayed alone. Where the disk did not
// keep up the trace says so, and goes on from another snapshot; it never holds up
// the node, and never loses a line in silence.
//
// docs/trace.md is for those who read one.
package trace
