package wire

import (
	"fmt"

	"github.com/tenure-go/tenure/core"
)

type ownerJSON struct {
	Node  core.NodeID `json:"node"`
	Epoch core.Epoch  `json:"epoch"`
}

// EncodeOwner is {"node":"…","epoch":1}, byte for byte. It panics if the record
// would not decode.
func EncodeOwner(o core.Owner) []byte { return encode(ownerJSON(o), checkOwner(o)) }

// DecodeOwner reads an ownership record. Its node is empty only where the
// record says so: the cell is released.
func DecodeOwner(body []byte) (core.Owner, error) {
	o := parse(body)
	owner := core.Owner{
		Node:  core.NodeID(o.text("node", MaxName+1+idHex)),
		Epoch: core.Epoch(o.number("epoch", 1, MaxNumber)),
	}
	if o.err == nil {
		o.err = checkOwner(owner)
	}
	if o.err != nil {
		return core.Owner{}, fmt.Errorf("ownership record: %w", o.err)
	}
	return owner, nil
}

func checkOwner(o core.Owner) error {
	if o.Epoch < 1 || o.Epoch > MaxNumber {
		return fmt.Errorf("epoch %d is not from 1 to %d", o.Epoch, int64(MaxNumber))
	}
	if o.Node == "" {
		return nil
	}
	return CheckNodeID(o.Node)
}
