package core

// Effect is something to carry out. The set is sealed by Executor: a new kind
// that an executor does not handle does not compile.
//
// Effects are carried out in the order in which Step returned them. None may
// block the deciding goroutine: what takes time is started, and its completion
// comes back as an event with the same Op.
//
// NotAfter, where there is one, is the end of this node's authority: the
// executor compares it with the clock as its last act before it carries the
// effect out, and does not if it has passed (a write reports NotApplied; a
// Dispatch or Answer reports [Late]).
//
// Deadline, where there is one, is when the core stops waiting for the
// completion; the executor should give up by then. A write may land after it all
// the same: the core never takes silence for "not applied".
type Effect interface{ Do(Executor) }

// Executor carries effects out, one method a kind.
type Executor interface {
	Mint(Mint)
	WriteLease(WriteLease)
	ReadLease(ReadLease)
	ListLeases(ListLeases)
	ReadOwner(ReadOwner)
	WriteOwner(WriteOwner)
	Activate(Activate)
	Deactivate(Deactivate)
	Probe(Probe)
	Dispatch(Dispatch)
	Forward(Forward)
	Answer(Answer)
	Fail(Fail)
	Abort(Abort)
	End(End)
}

// Mint asks for a new identity: a node id, and a generation, never used before. It
// is an effect because the core has no randomness of its own.
type Mint struct{ Op OpID }

// WriteLease writes this node's own lease: a create if Expect is empty, else a
// replace of exactly that version. It is sent once: a retry, below the executor
// too, of a write that had landed would be answered "rejected".
type WriteLease struct {
	Op       OpID
	Lease    Lease
	Expect   Version
	Fresh    bool // use a new connection: the last one failed
	NotAfter Time // zero when creating
	Deadline Time
}

// ReadLease reads a node's lease, perhaps this node's own (Own).
type ReadLease struct {
	Op       OpID
	Node     NodeID
	Own      bool
	Fresh    bool
	Deadline Time
}

// ListLeases lists the nodes that have a lease record.
type ListLeases struct {
	Op       OpID
	Deadline Time
}

// ReadOwner reads a cell's ownership record.
type ReadOwner struct {
	Op       OpID
	Cell     CellName
	Deadline Time
}

// WriteOwner writes a cell's ownership record: a claim, or, with Owner.Node
// empty, a release. A create if Expect is empty, else a replace of exactly
// that version. It is sent once.
type WriteOwner struct {
	Op       OpID
	Cell     CellName
	Owner    Owner
	Expect   Version
	NotAfter Time
	Deadline Time
	// Evidence is why a takeover is right; nil unless it is one.
	Evidence *Evidence
}

// Activate prepares a claimed cell for its first request. It comes once per epoch
// at most, and no request of that epoch is dispatched before it is completed.
type Activate struct {
	Op    OpID
	Cell  CellName
	Epoch Epoch
	// Prior is the node that owned it before, empty if it was unowned.
	Prior    NodeID
	Takeover bool
	Deadline Time
}

// Deactivate ends a cell at an epoch. Nothing of it runs any more, unless the
// activation itself does, having taken too long.
type Deactivate struct {
	Op       OpID
	Cell     CellName
	Epoch    Epoch
	Reason   Reason
	Deadline Time
}

// Probe asks a peer for its node id, without side effects.
type Probe struct {
	Op       OpID
	Node     NodeID
	Contact  Contact
	Deadline Time
}

// Dispatch runs a request here, at an epoch. For an Own request it says that
// the cell is owned.
type Dispatch struct {
	ID       RequestID
	Cell     CellName
	Epoch    Epoch
	NotAfter Time
}

// Forward sends a request to the cell's owner. It is completed by [Ready]
// or [ForwardFailed], unless the request has its end before.
type Forward struct {
	ID      RequestID
	Cell    CellName
	Node    NodeID
	Contact Contact
}

// Answer lets the answer to a request out.
type Answer struct {
	ID       RequestID
	NotAfter Time
}

// Fail answers a request with an error; nothing of an answer was let out. What
// runs of it is stopped, and Done follows if it was running here. No other effect
// of this request follows.
type Fail struct {
	ID      RequestID
	Failure Failure
}

// Abort breaks off a request whose answer has begun, so that the client can
// tell; it also takes an owned cell away from its owner. Done follows.
type Abort struct {
	ID     RequestID
	Reason Reason
}

// End is the end of the session. Nothing follows it but the refusal of requests
// that still arrive. The executor tells the
// application of every cell that was not deactivated, as best it can.
type End struct{ Reason Reason }

// Reason is why a cell, or the whole session, ends. It is for people and for the
// exit code; the core decides nothing by which one it is.
type Reason string

// Reasons for the end of a cell.
const (
	ReasonIdle      Reason = "idle"
	ReasonLimit     Reason = "limit"     // over the resident limit
	ReasonRequested Reason = "requested" // somebody asked for it
	ReasonActivate  Reason = "activation failed"
	ReasonDrain     Reason = "drain" // of a cell, or of the session: all was settled
)

// Reasons for the end of the session.
const (
	ReasonDrainTimeout Reason = "drain timed out"
	ReasonExpired      Reason = "authority expired"
	ReasonMissing      Reason = "lease record missing"
	ReasonReplaced     Reason = "lease record replaced"
)

// Fenced reports whether the session ended because authority was lost.
func (r Reason) Fenced() bool {
	return r == ReasonExpired || r == ReasonMissing || r == ReasonReplaced
}

func (e Mint) Do(x Executor)       { x.Mint(e) }
func (e WriteLease) Do(x Executor) { x.WriteLease(e) }
func (e ReadLease) Do(x Executor)  { x.ReadLease(e) }
func (e ListLeases) Do(x Executor) { x.ListLeases(e) }
func (e ReadOwner) Do(x Executor)  { x.ReadOwner(e) }
func (e WriteOwner) Do(x Executor) { x.WriteOwner(e) }
func (e Activate) Do(x Executor)   { x.Activate(e) }
func (e Deactivate) Do(x Executor) { x.Deactivate(e) }
func (e Probe) Do(x Executor)      { x.Probe(e) }
func (e Dispatch) Do(x Executor)   { x.Dispatch(e) }
func (e Forward) Do(x Executor)    { x.Forward(e) }
func (e Answer) Do(x Executor)     { x.Answer(e) }
func (e Fail) Do(x Executor)       { x.Fail(e) }
func (e Abort) Do(x Executor)      { x.Abort(e) }
func (e End) Do(x Executor)        { x.End(e) }
