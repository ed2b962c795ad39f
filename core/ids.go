package core

import "fmt"

// Time is an instant, and a difference of two, on the node's own monotonic
// clock, in units that only [Config] fixes (nanoseconds in production). It
// keeps counting while the machine is suspended. Zero means "never" where a
// field says so. Instants of two nodes cannot be compared, and no record carries
// one; only durations mean the same everywhere, to within slack.
type Time int64

// never sorts after every real time.
const never = Time(1<<63 - 1)

// CellName names a cell: the unit of ownership.
type CellName string

// MaxCellName is the longest cell name, in bytes.
const MaxCellName = 200

// Check reports why the name is not a cell name: 1 to 200 bytes of
// A-Z a-z 0-9 _ - . : $ @ + = ~, and not "." or "..".
func (c CellName) Check() error {
	switch {
	case c == "":
		return fmt.Errorf("a cell name must not be empty")
	case len(c) > MaxCellName:
		return fmt.Errorf("a cell name has at most %d bytes, this one has %d", MaxCellName, len(c))
	case c == "." || c == "..":
		return fmt.Errorf("%q is not a cell name", string(c))
	}
	for i := 0; i < len(c); i++ {
		if !cellByte(c[i]) {
			return fmt.Errorf("byte %d of the cell name is %q; allowed are A-Z a-z 0-9 _ - . : $ @ + = ~", i, c[i])
		}
	}
	return nil
}

func cellByte(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return true
	}
	switch b {
	case '_', '-', '.', ':', '$', '@', '+', '=', '~':
		return true
	}
	return false
}

// NodeID names one session of one process. It never comes back: a restarted
// process is another node. So "dead" can be remembered for good, and a record
// that names this node was written by this session.
type NodeID string

// Epoch is a cell's fencing token: 1 at the first acquisition, +1 at every
// further one, never reset. Zero is no epoch. It lives in the ownership record, so
// it outlasts every node. A resource that keeps the highest it has seen can refuse
// the late writes of an earlier owner.
type Epoch uint64

// Version is the bucket's token for one state of one record, compared only for
// equality. Empty stands for "no record". A store may derive it from the body: no
// body of a record ever recurs, so no version does.
type Version string

// OpID numbers one asynchronous effect of one State; its completion carries it
// back. Numbers grow and are never reused, so that the answer to an operation that
// was given up is never taken for that of its successor. Zero is no operation.
type OpID uint64

// RequestID names one request while this node handles it. The caller chooses
// it and must not reuse one.
type RequestID uint64

// Lease is a node's lease record, as far as the core reads it.
type Lease struct {
	Node NodeID
	// Generation is a random token of the session.
	Generation string
	// Seq counts the session's lease writes: no two bodies are ever equal.
	Seq uint64
	// TTL is the holder's own; an observer judges by the larger of it and the
	// fleet's.
	TTL Time
	// Released marks a tombstone: the node has given up for good.
	Released bool
	Contact
}

// Contact is how a node is reached.
type Contact struct {
	// Addr is host:port of the peer listener; empty if there is none.
	Addr string
	// Key is the SHA-256 of the peer TLS public key, in hex.
	Key string
	// Protocol is the version of the peer protocol.
	Protocol int
}

// Owner is a cell's ownership record.
type Owner struct {
	// Node is empty when the cell is released.
	Node  NodeID
	Epoch Epoch
}
