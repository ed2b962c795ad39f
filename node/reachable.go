package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/internal/wire"
)

// cellsDoubt is whether the bucket of the ownership records answers, as far as
// the node's own work shows. Nothing is asked for its sake while all is well, so
// that it costs nothing.
type cellsDoubt struct {
	sync.Mutex
	err   error // the last failure; nil once the bucket has answered since
	again core.Time
}

// noteCells takes the outcome of an operation on an ownership record; nil if the
// store answered, whatever the answer was.
func (n *Node) noteCells(err error) {
	n.doubt.Lock()
	defer n.doubt.Unlock()
	n.doubt.err = orThrottled(err)
}

// orThrottled is nil for a throttle too: a store that asks to slow down answers.
// Were its nodes not ready for that, it would be all of them at once.
func orThrottled(err error) error {
	if errors.Is(err, bucket.ErrThrottled) {
		return nil
	}
	return err
}

// CheckCells returns nil if the bucket of the ownership records answers. It reads
// from it only after an operation of the node has failed, once a second at the most
// however often it is called, until the bucket has answered: without requests, which
// a node that is not ready does not get, nothing else would find that out.
func (n *Node) CheckCells(ctx context.Context) error {
	n.doubt.Lock()
	err, now := n.doubt.err, n.clock.Now()
	if err == nil || now < n.doubt.again {
		n.doubt.Unlock()
		return err
	}
	const patience = 2 * time.Second
	n.doubt.again = now + core.Time(patience+time.Second) // whoever asks meanwhile
	n.doubt.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = n.cfg.Cells.Get(ctx, wire.FleetKey)
	if err = orThrottled(err); err != nil {
		err = fmt.Errorf("read %s: %w", wire.FleetKey, err)
	}
	n.doubt.Lock()
	defer n.doubt.Unlock()
	n.doubt.err, n.doubt.again = err, n.clock.Now()+core.Time(time.Second)
	return err
}
