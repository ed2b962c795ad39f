package wire

import (
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/core"
)

// FleetVersion is the version of all the records that this package knows.
const FleetVersion = 1

// Fleet is what all nodes of a fleet agree on. The first one creates it.
type Fleet struct {
	// Version is FleetVersion; another one is an error to decode, because its
	// records may mean something else.
	Version int
	// ID is random; the bucket and the lease bucket must hold the same.
	ID string
	// LeaseTTL is in nanoseconds, and whole milliseconds.
	LeaseTTL core.Time
	// CreatedMS is for display, in milliseconds since 1970.
	CreatedMS int64
}

type fleetJSON struct {
	Version    int    `json:"version"`
	ID         string `json:"fleet_id"`
	LeaseTTLMS int64  `json:"lease_ttl_ms"`
	CreatedMS  int64  `json:"created_ms"`
}

// EncodeFleet writes the fleet's record. It panics if Check fails.
func EncodeFleet(f Fleet) []byte {
	return encode(fleetJSON{f.Version, f.ID, int64(f.LeaseTTL / millisecond), f.CreatedMS}, f.Check())
}

// DecodeFleet reads the fleet's record.
func DecodeFleet(body []byte) (Fleet, error) {
	o := parse(body)
	f := Fleet{
		Version:   int(o.number("version", 1, 1<<30)),
		ID:        o.text("fleet_id", maxToken),
		LeaseTTL:  core.Time(o.number("lease_ttl_ms", 1, int64(MaxTTL/millisecond))) * millisecond,
		CreatedMS: o.number("created_ms", 0, MaxNumber),
	}
	if o.err == nil {
		o.err = f.Check()
	}
	if o.err != nil {
		return Fleet{}, fmt.Errorf("fleet record: %w", o.err)
	}
	return f, nil
}

// Check reports why the record would not decode, or nil.
func (f Fleet) Check() error {
	if f.Version != FleetVersion {
		return fmt.Errorf("the fleet's records have version %d, this program knows version %d", f.Version, FleetVersion)
	}
	if f.LeaseTTL < millisecond || f.LeaseTTL > MaxTTL || f.LeaseTTL%millisecond != 0 {
		return fmt.Errorf("the lease TTL is %dns, must be whole milliseconds from 1ms to 24h", f.LeaseTTL)
	}
	return errors.Join(
		checkToken("fleet_id", f.ID),
		checkNumber("created_ms", f.CreatedMS, 0, MaxNumber),
	)
}
