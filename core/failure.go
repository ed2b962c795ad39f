package core

// Code is the stable name of a failure, as users and scripts see it.
type Code string

// Codes of failures. docs/errors.md says what each means to a client.
const (
	CodeNodeUnavailable  Code = "node-unavailable"
	CodeDraining         Code = "draining"
	CodeStoreUnavailable Code = "store-unavailable"
	CodeAcquireFailed    Code = "acquire-failed"
	CodeNoCapacity       Code = "no-capacity"
	CodeCellOverloaded   Code = "cell-overloaded"
	CodeOwnerUnreachable Code = "owner-unreachable"
	CodeAuthorityLost    Code = "authority-lost"
	CodeActivationFailed Code = "activation-failed"
	CodePeerIncompatible Code = "peer-incompatible"
	CodeOwnerUnsettled   Code = "owner-unsettled"
	CodeOwnerLost        Code = "owner-lost"
	CodeTimeout          Code = "timeout"
	CodeBadRecord        Code = "bad-record"
	// CodeNotMine is a node's answer to a peer: another node owns the cell.
	CodeNotMine Code = "not-mine"
	// CodeOwned is the answer to Own with Try: another node owns the cell.
	CodeOwned Code = "owned"
	// The following are given by the gateway, never by the core.
	CodeBadCellName         Code = "bad-cell-name"
	CodeAppUnreachable      Code = "app-unreachable"
	CodeAppBroken           Code = "app-broken"
	CodeOwnershipUnverified Code = "ownership-unverified"
)

// Failure is why a request gets no answer of its cell.
type Failure struct {
	Code Code
	// Ran is false only if the request certainly was not run: no attempt, on
	// any hop, wrote a byte of it to the application, or to a peer that did
	// not refuse it. Only then may it be sent again if it is not idempotent.
	Ran bool
	// RetryAfter is when it may succeed, from now; zero if waiting does not
	// help or nothing is known.
	RetryAfter Time
	// Detail completes the code for a person; may be empty.
	Detail string
	// Node and Epoch are the cell's owner, where known.
	Node  NodeID
	Epoch Epoch
}
