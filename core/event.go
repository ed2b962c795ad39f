package core

// Event is something that happened. The set is sealed: a new kind that State
// does not handle does not compile.
//
// An event with an Op completes the effect that bore it. The executor sends at
// most one for each. It should send one, but only [Minted] is waited for without
// end: everything else that somebody waits on has a deadline in the core. One whose
// Op is no longer current is ignored; what it did to the bucket is found by reading.
// Events about a request that has had its end are ignored too, so the executor need
// not know which of its messages crossed.
type Event interface{ apply(*State, *out) }

// WriteOutcome is what is known of a conditional write.
type WriteOutcome uint8

// Outcomes of a conditional write. The zero value is the safe one.
//
// Whoever is not sure must say Ambiguous: it costs one read. Applied of a claim
// that was not would let two nodes serve (S3). NotApplied of a claim that was, or
// will be, leaves a record behind that the core does not look for; of a renewal,
// the next reading finds a record that no known attempt explains, and the node
// fences.
const (
	Ambiguous  WriteOutcome = iota // it may have been applied, or may be later
	Applied                        // it was applied
	Rejected                       // the condition did not hold: not applied
	NotApplied                     // it certainly did not happen
	Contended                      // not applied, because another write was under way: send it again
)

func (o WriteOutcome) String() string {
	return [...]string{"ambiguous", "applied", "rejected", "not-applied", "contended"}[o]
}

// ReadOutcome is what is known of a read.
type ReadOutcome uint8

// Outcomes of a read. The zero value is the safe one. Absent said of a record that
// is there, a wrong bucket or a proxy's own 404, would start the observation of a
// live node as absent, and fence one that reads its own lease.
const (
	ReadFailed ReadOutcome = iota // nothing is known
	Found                         // a record that parses and belongs to its key
	Absent                        // the store's own "no such object"
	BadRecord                     // something that is not ours; never overwritten
)

func (o ReadOutcome) String() string {
	return [...]string{"failed", "found", "absent", "bad-record"}[o]
}

// Stamps are two readings of the store's clock that came with one answer, in
// the Config's unit since an arbitrary instant, the same for all answers. Their
// distance from this node's clock means nothing; only whether it stays the same
// does (storeclock.go).
type Stamps struct {
	// Date is when the store made the answer; valid if HasDate.
	Date    Time
	HasDate bool
	// Modified is when it last wrote the object; valid if HasModified, which
	// says that it may be compared with Date.
	Modified    Time
	HasModified bool
}

// Start begins the session: the node creates its lease. Before it nothing is done,
// and every request is refused.
type Start struct{}

// Minted answers [Mint]: an identity that was never used before.
type Minted struct {
	Op         OpID
	Node       NodeID
	Generation string
	Contact    Contact
}

// LeaseWritten completes [WriteLease]. Version is that of the record written, with
// Applied; an Applied without one counts as Ambiguous.
type LeaseWritten struct {
	Op      OpID
	Outcome WriteOutcome
	Version Version
	Stamps  Stamps
}

// LeaseRead completes [ReadLease]. Lease and Version are of one and the same state
// of the record, with Found. Version is empty with Absent.
type LeaseRead struct {
	Op      OpID
	Node    NodeID
	Outcome ReadOutcome
	Lease   Lease
	Version Version
	Stamps  Stamps
}

// LeasesListed completes [ListLeases]; Nodes is empty if it failed.
type LeasesListed struct {
	Op    OpID
	Nodes []NodeID
}

// OwnerRead completes [ReadOwner].
type OwnerRead struct {
	Op      OpID
	Cell    CellName
	Outcome ReadOutcome
	Owner   Owner
	Version Version
}

// OwnerWritten completes [WriteOwner].
type OwnerWritten struct {
	Op      OpID
	Cell    CellName
	Outcome WriteOutcome
	Version Version
}

// Activated completes [Activate]. Not OK means that the application may have done
// anything, so it is told [Deactivate] all the same.
type Activated struct {
	Op   OpID
	Cell CellName
	OK   bool
	// Detail says why not, for the error that the waiting requests get.
	Detail string
}

// Deactivated completes [Deactivate]: the application works on the cell no more.
type Deactivated struct {
	Op   OpID
	Cell CellName
}

// Arrive is a new request for a cell.
type Arrive struct {
	ID   RequestID
	Cell CellName
	// Deadline is when the request fails with a timeout if no answer began. There
	// must be one; it may be far away.
	Deadline Time
	// Forwarded: it came from a peer, so it is run here or refused, and never
	// forwarded on.
	Forwarded bool
	// Own: the caller wants to own the cell rather than have a request run.
	// It is dispatched once the cell is owned here, and pins it until Done. It
	// excludes other nodes, not other callers of this one.
	Own bool
	// Try, with Own: fail if another node owns the cell rather than wait.
	Try bool
}

// Ready says that the answer to a request, run here or forwarded, is there and
// may begin once the core says so, by [Answer]. If it says [Fail] instead, or
// nothing because the request has had its end, nothing of it is let out.
type Ready struct{ ID RequestID }

// Done says that a request which was dispatched, forwarded or answered has
// ended and touches the cell no more. It must come, also after Fail or Abort: until
// then the cell counts as busy and is not released.
type Done struct{ ID RequestID }

// Late says that a Dispatch or Answer was not carried out because its NotAfter
// had passed.
type Late struct{ ID RequestID }

// Gone says that the caller of a request went away. It counts only while the
// request waits: one that was dispatched, forwarded or answered is ended by Done,
// also where the executor finds that its caller has gone before.
type Gone struct{ ID RequestID }

// How a forward failed.
type ForwardFailure uint8

// Ways in which a forward fails.
const (
	NotConnected  ForwardFailure = iota // no byte of the request was written
	ForwardBroken                       // it was begun: the owner may have run it
	NotMine                             // the peer says that another node owns the cell; not run
	PeerRefused                         // the peer refused it before it was dispatched, for another reason
)

func (f ForwardFailure) String() string {
	return [...]string{"not-connected", "broken", "not-mine", "refused"}[f]
}

// ForwardFailed ends a forward that brought no answer of the cell.
type ForwardFailed struct {
	ID  RequestID
	How ForwardFailure
	// Refusal is the peer's own failure, with PeerRefused.
	Refusal Failure
}

// Probed completes [Probe].
type Probed struct {
	Op   OpID
	Node NodeID
	// OK: that very session answered.
	OK bool
}

// Evict asks for a cell to be given up as soon as nothing runs on it. It is ignored
// for a cell that is not owned here.
type Evict struct{ Cell CellName }

// Drain begins the end of the session: cells are released, then the lease.
type Drain struct{}

// Tick does nothing by itself: every Step first does what the time asks for.
type Tick struct{}
