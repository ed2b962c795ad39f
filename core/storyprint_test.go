package core_test

import (
	"fmt"
	"strings"

	"github.com/tenure-go/tenure/core"
)

// printer writes an effect as one line.
type printer struct {
	text string
	op   openOp
}

func (p *printer) say(id core.OpID, kind, about, format string, args ...any) {
	p.op = openOp{id, kind, about}
	p.text = fmt.Sprintf("#%d ", id) + fmt.Sprintf(format, args...)
}

func condition(v core.Version) string {
	if v == "" {
		return "if absent"
	}
	return "if " + string(v)
}

func (p *printer) Mint(e core.Mint) { p.say(e.Op, "mint", "", "mint an identity") }

func (p *printer) WriteLease(e core.WriteLease) {
	what := "write lease"
	if e.Lease.Released {
		what = "write tombstone"
	}
	p.say(e.Op, "write lease", "", "%s seq %d %s, by %s", what, e.Lease.Seq, condition(e.Expect), clockText(e.Deadline))
	if e.NotAfter != 0 {
		p.text += ", not after " + clockText(e.NotAfter)
	}
	if e.Fresh {
		p.text += ", fresh connection"
	}
}

func (p *printer) ReadLease(e core.ReadLease) {
	if e.Own {
		p.say(e.Op, "read lease", "own", "read own lease back, by %s", clockText(e.Deadline))
		return
	}
	p.say(e.Op, "read lease", string(e.Node), "read lease of %s, by %s", e.Node, clockText(e.Deadline))
}

func (p *printer) ListLeases(e core.ListLeases) { p.say(e.Op, "list", "", "list leases") }

func (p *printer) ReadOwner(e core.ReadOwner) {
	p.say(e.Op, "read owner", string(e.Cell), "read owner of %s, by %s", e.Cell, clockText(e.Deadline))
}

func (p *printer) WriteOwner(e core.WriteOwner) {
	kind := "claim"
	if e.Owner.Node == "" {
		kind = "release"
	}
	p.say(e.Op, "write owner", string(e.Cell), "%s %s at epoch %d %s, by %s, not after %s",
		kind, e.Cell, e.Owner.Epoch, condition(e.Expect), clockText(e.Deadline), clockText(e.NotAfter))
	if v := e.Evidence; v != nil {
		p.text += fmt.Sprintf("; %s is dead: %s", v.Node, v.Rule)
	}
}

func (p *printer) Activate(e core.Activate) {
	p.say(e.Op, "activate", string(e.Cell), "activate %s at epoch %d, by %s", e.Cell, e.Epoch, clockText(e.Deadline))
	if e.Takeover {
		p.text += fmt.Sprintf(", taken over from %s", e.Prior)
	}
}

func (p *printer) Deactivate(e core.Deactivate) {
	p.say(e.Op, "deactivate", string(e.Cell), "deactivate %s at epoch %d (%s), by %s", e.Cell, e.Epoch, e.Reason, clockText(e.Deadline))
}

func (p *printer) Probe(e core.Probe) {
	p.say(e.Op, "probe", string(e.Node), "probe %s at %s, by %s", e.Node, e.Contact.Addr, clockText(e.Deadline))
}

func (p *printer) Dispatch(e core.Dispatch) {
	p.text = fmt.Sprintf("DISPATCH request %d to %s at epoch %d, not after %s", e.ID, e.Cell, e.Epoch, clockText(e.NotAfter))
}

func (p *printer) Forward(e core.Forward) {
	p.text = fmt.Sprintf("FORWARD request %d for %s to %s at %s", e.ID, e.Cell, e.Node, e.Contact.Addr)
}

func (p *printer) Answer(e core.Answer) {
	p.text = fmt.Sprintf("ANSWER request %d, not after %s", e.ID, clockText(e.NotAfter))
}

func (p *printer) Fail(e core.Fail) {
	f := e.Failure
	var b strings.Builder
	fmt.Fprintf(&b, "FAIL request %d: %s", e.ID, f.Code)
	if f.Detail != "" {
		fmt.Fprintf(&b, " (%s)", f.Detail)
	}
	if f.Node != "" {
		fmt.Fprintf(&b, ", owner %s", f.Node)
	}
	if f.RetryAfter != 0 {
		fmt.Fprintf(&b, ", retry after %s", clockText(f.RetryAfter))
	}
	if f.Ran {
		b.WriteString(", perhaps executed")
	}
	p.text = b.String()
}

func (p *printer) Abort(e core.Abort) { p.text = fmt.Sprintf("ABORT request %d: %s", e.ID, e.Reason) }

func (p *printer) End(e core.End) { p.text = fmt.Sprintf("END: %s", e.Reason) }
