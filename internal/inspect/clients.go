package inspect

import (
	"context"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/pace"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
	"github.com/tenure-go/tenure/peer"
)

// Paced is a fleet whose clients try reads again and heed throttles, as a node's do.
func Paced(cells, leases bucket.Bucket) Fleet {
	p := pace.New(pace.Options{Class: wire.ClassOfKey})
	return Fleet{Cells: p.Bucket(cells), Leases: p.Bucket(leases)}
}

// Prober probes peers as a stranger, who needs no key.
type Prober struct{ client *peer.Client }

// NewProber makes one; Close ends its connections.
func NewProber() (Prober, error) {
	identity, err := peer.NewIdentity()
	if err != nil {
		return Prober{}, err
	}
	return Prober{peer.NewClient(peer.ClientOptions{
		Identity: identity, Self: func() core.NodeID { return "" }, DialTimeout: 3 * time.Second,
	})}, nil
}

// Probe returns nil only if that very session answers, with its lease's key.
func (p Prober) Probe(ctx context.Context, node core.NodeID, c core.Contact) error {
	return p.client.Probe(ctx, node, c)
}

// Close ends its connections.
func (p Prober) Close() { p.client.Close() }
