package wire

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/tenure-go/tenure/core"
)

// Limits of a lease's fields.
const (
	// MaxTTL is the longest lease: 24 hours. It keeps every sum of a few TTLs
	// far from the end of core.Time.
	MaxTTL = 24 * 3600 * 1000 * millisecond

	millisecond = core.Time(1e6) // core.Time is in nanoseconds here

	maxText     = 256 // bytes of a name, a zone
	maxToken    = 128 // bytes of a generation, a fleet id
	maxAddr     = 300
	keyHex      = 64 // hex digits of a SHA-256
	maxProtocol = 1 << 30
)

// LeaseRecord is a lease as it is written: what the core reads, and what is for
// people and placement.
type LeaseRecord struct {
	core.Lease
	// ExpiresMS is when the lease ends by its writer's wall clock, in
	// milliseconds since 1970. It is for display; no verdict uses it.
	ExpiresMS int64
	Name      string
	Zone      string
	Load      Load
}

// Load is how busy a node was when it wrote its lease. Nodes that report none
// read as zero.
type Load struct {
	Cells    int64 `json:"cells"`     // resident
	MaxCells int64 `json:"max_cells"` // 0: no limit
	Requests int64 `json:"requests"`  // running or waiting
	Draining bool  `json:"draining"`
}

type leaseJSON struct {
	Node       core.NodeID `json:"node"`
	ExpiresMS  int64       `json:"expires_ms"`
	TTLMS      int64       `json:"ttl_ms"`
	Generation string      `json:"generation"`
	Seq        uint64      `json:"seq"`
	Addr       string      `json:"addr"`
	Protocol   int         `json:"peer_protocol"`
	Key        string      `json:"tls_key"`
	Name       string      `json:"name"`
	Zone       string      `json:"zone"`
	Load       Load        `json:"load"`
	Released   bool        `json:"released,omitempty"`
}

// EncodeLease writes a lease. It panics if Check fails.
func EncodeLease(r LeaseRecord) []byte {
	return encode(leaseJSON{
		Node: r.Node, ExpiresMS: r.ExpiresMS, TTLMS: int64(r.TTL / millisecond),
		Generation: r.Generation, Seq: r.Seq,
		Addr: r.Addr, Protocol: r.Protocol, Key: r.Key,
		Name: r.Name, Zone: r.Zone, Load: r.Load, Released: r.Released,
	}, r.Check())
}

// DecodeLease reads the lease at the key of that node. Name, zone, load and
// released may be missing, but what is there must be well formed.
func DecodeLease(node core.NodeID, body []byte) (LeaseRecord, error) {
	o := parse(body)
	var r LeaseRecord
	r.Node = core.NodeID(o.text("node", MaxName+1+idHex))
	r.ExpiresMS = o.number("expires_ms", 0, MaxNumber)
	r.TTL = core.Time(o.number("ttl_ms", 1, int64(MaxTTL/millisecond))) * millisecond
	r.Generation = o.text("generation", maxToken)
	r.Seq = uint64(o.number("seq", 1, MaxNumber))
	r.Addr = o.text("addr", maxAddr)
	r.Protocol = int(o.number("peer_protocol", 0, maxProtocol))
	r.Key = o.text("tls_key", keyHex)
	if o.has("name") {
		r.Name = o.text("name", maxText)
	}
	if o.has("zone") {
		r.Zone = o.text("zone", maxText)
	}
	if o.has("load") {
		r.Load = o.load("load")
	}
	r.Released = o.has("released") && o.flag("released")
	if o.err == nil {
		o.err = r.Check()
	}
	if o.err == nil && r.Node != node {
		o.err = fmt.Errorf("it names another node, %s", r.Node)
	}
	if o.err != nil {
		return LeaseRecord{}, fmt.Errorf("lease of %.80q: %w", string(node), o.err)
	}
	return r, nil
}

func (o *object) load(name string) Load {
	raw := o.raw(name)
	if o.err != nil {
		return Load{}
	}
	inner := parse([]byte(raw))
	count := func(name string) int64 {
		if !inner.has(name) {
			return 0
		}
		return inner.number(name, 0, MaxNumber)
	}
	l := Load{Cells: count("cells"), MaxCells: count("max_cells"), Requests: count("requests")}
	l.Draining = inner.has("draining") && inner.flag("draining")
	if inner.err != nil {
		o.fail("field %q: %w", name, inner.err)
	}
	return l
}

// Check reports why the record would not decode, or nil. A node checks its own
// once, with the name, zone and address that its user gave.
func (r LeaseRecord) Check() error {
	if r.TTL < millisecond || r.TTL > MaxTTL || r.TTL%millisecond != 0 {
		return fmt.Errorf("the TTL is %dns, must be whole milliseconds from 1ms to 24h", r.TTL)
	}
	if r.Seq > MaxNumber {
		return fmt.Errorf("field \"seq\" is %d, at most %d is allowed", r.Seq, int64(MaxNumber))
	}
	return errors.Join(
		CheckNodeID(r.Node),
		checkToken("generation", r.Generation),
		checkContact(r.Contact),
		checkText("name", r.Name, maxText),
		checkText("zone", r.Zone, maxText),
		checkNumber("seq", int64(r.Seq), 1, MaxNumber),
		checkNumber("expires_ms", r.ExpiresMS, 0, MaxNumber),
		checkNumber("load.cells", r.Load.Cells, 0, MaxNumber),
		checkNumber("load.max_cells", r.Load.MaxCells, 0, MaxNumber),
		checkNumber("load.requests", r.Load.Requests, 0, MaxNumber),
	)
}

func checkToken(name, s string) error {
	if s == "" {
		return fmt.Errorf("field %q is empty", name)
	}
	return checkText(name, s, maxToken)
}

// checkContact: a node that can be reached must say by which key it is known.
func checkContact(c core.Contact) error {
	if err := checkNumber("peer_protocol", int64(c.Protocol), 0, maxProtocol); err != nil {
		return err
	}
	if c.Key != "" && (len(c.Key) != keyHex || !lowerHex(c.Key)) {
		return fmt.Errorf("field \"tls_key\" is not %d hex digits", keyHex)
	}
	if c.Addr == "" {
		return nil
	}
	if c.Key == "" {
		return errors.New("there is an address, and no TLS key")
	}
	return checkAddr(c.Addr)
}

func checkAddr(addr string) error {
	if err := checkText("addr", addr, maxAddr); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return fmt.Errorf("address %q is not host:port", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("address %q has no port number", addr)
	}
	return nil
}
