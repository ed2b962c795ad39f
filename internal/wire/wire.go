// Package wire holds the bytes of a fleet's records: their keys, and how they
// are written and read.
//
// Reading is strict, because a record decides who may act: a field that is
// missing, null, of the wrong type or given twice is an error, never a zero
// value with a meaning, and names match case-sensitively. Fields that are not
// known are ignored, so that a later version may add some. Whatever decodes
// re-encodes to the same meaning, and whatever is encoded decodes.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tenure-go/tenure/core"
)

// MaxRecord is the largest record, in bytes. A larger object is not ours.
const MaxRecord = 16 << 10

// MaxNumber bounds every number in a record: beyond it, readers that keep
// numbers as floats lose the last digits. It also bounds epochs.
const MaxNumber = 1 << 53

// Prefixes of keys, for listing.
const (
	CellsPrefix = "cells/"
	NodesPrefix = "nodes/"
)

// How long a node's record is kept after its last write: that of a node that
// expired, and that of one that said goodbye.
const (
	Retention         = 30 * 24 * time.Hour
	RetentionReleased = 24 * time.Hour
)

// SweepKey is the key of the record of the last clean-up, in the lease bucket.
const SweepKey = "fleet/sweep.json"

// FleetKey is the key of the fleet's own record, in both buckets.
const FleetKey = "fleet/fleet.json"

const (
	ownerSuffix = "/own.json"
	leaseSuffix = ".json"
)

// OwnerKey is the key of a cell's ownership record.
func OwnerKey(cell core.CellName) string { return CellsPrefix + string(cell) + ownerSuffix }

// LeaseKey is the key of a node's lease.
func LeaseKey(node core.NodeID) string { return NodesPrefix + string(node) + leaseSuffix }

// CellOfKey is the cell whose ownership record has that key; false for any
// other key.
func CellOfKey(key string) (core.CellName, bool) {
	cell := core.CellName(between(key, CellsPrefix, ownerSuffix))
	return cell, cell.Check() == nil
}

// NodeOfKey is the node whose lease has that key; false for any other key.
func NodeOfKey(key string) (core.NodeID, bool) {
	node := core.NodeID(between(key, NodesPrefix, leaseSuffix))
	return node, CheckNodeID(node) == nil
}

// between cuts both ends off; it is empty if either is not there.
func between(s, prefix, suffix string) string {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return ""
	}
	rest, ok = strings.CutSuffix(rest, suffix)
	if !ok {
		return ""
	}
	return rest
}

// encode is json.Marshal without its HTML escapes. A record that would not
// decode must not reach the bucket, where nobody may ever repair it: check is
// its own verdict, and a failure is a broken invariant of the caller.
func encode(record any, check error) []byte {
	if check != nil {
		panic(fmt.Sprintf("wire: encode: %v", check))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(record); err != nil {
		panic(fmt.Sprintf("wire: encode: %v", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ClassOfKey names what a key is about, for counts: owner, lease, fleet, probe,
// or other.
func ClassOfKey(key string) string {
	switch first, _, _ := strings.Cut(key, "/"); first {
	case "cells":
		return "owner"
	case "nodes":
		return "lease"
	case "fleet", "probe":
		return first
	}
	return "other"
}
