package tenure

import (
	"github.com/tenure-go/tenure/bucket/pace"
	"github.com/tenure-go/tenure/internal/wire"
)

// paces are what a node's clients of each bucket know together; leases is nil
// where both are one bucket.
type paces struct{ cells, leases *pace.Pace }

// paced puts the clients of each bucket under one pace. The node's own lease has
// its lane.
func (bs buckets) paced(oneBucket bool) buckets {
	bs.paces.cells = newPace()
	leases := bs.paces.cells
	if !oneBucket {
		leases = newPace()
		bs.paces.leases = leases
	}
	bs.cells, bs.lease, bs.leases = bs.paces.cells.Bucket(bs.cells), leases.Lane(bs.lease), leases.Bucket(bs.leases)
	return bs
}

func newPace() *pace.Pace { return pace.New(pace.Options{Class: wire.ClassOfKey}) }

// LeaseBucketURL is where the node leases of a fleet live: leaseBucket if it is
// given, else the bucket (for sqlite:PATH the second file PATH-leases).
func LeaseBucketURL(bucketURL, leaseBucket string) string { return leaseURL(bucketURL, leaseBucket) }
