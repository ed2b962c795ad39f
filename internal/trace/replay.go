package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tenure-go/tenure/core"
)

// Step is one decision as it was replayed.
type Step struct {
	Line int
	Decision
	// State is the core's after it; valid during the call only.
	State *core.State
}

// Difference is a decision that the core, replayed, takes otherwise.
type Difference struct {
	Line               int
	Event              string
	Recorded, Computed []string // effects, one line each
}

// Result is what came of the replay of one file.
type Result struct {
	Header     Header
	Node       core.NodeID // its last
	Decisions  int
	Lines      int
	Difference *Difference // the first one; the replay ends there
	Gaps       []Gap
	Torn       bool // the last line is not whole
	Stopped    bool // as asked, before the end
}

// Gap is where decisions are missing.
type Gap struct {
	Line int
	Cut
}

// Replay runs the events of a trace through the core. prior is what came of the
// file before, where there is one: the state must go on from there. begin, which may
// be nil, is given the header, and what it returns each step; that ends the replay by
// returning false. With an error the result is valid up to there; it is nil if there
// was no header.
func Replay(r io.Reader, prior *Replayed, begin func(Header) func(Step) bool) (*Replayed, error) {
	x, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	p := &Replayed{Result: Result{Header: x.Header}}
	var see func(Step) bool
	if begin != nil {
		see = begin(x.Header)
	}
	if x.Header.Segment == 1 {
		if p.state, err = core.New(x.Header.Config); err != nil {
			return nil, &LineError{x.Line, err}
		}
	} else if prior.continues(x.Header) {
		p.before = prior.state
	}
	for {
		e, err := x.Next()
		p.Lines, p.Torn = x.Line, x.Torn
		if err == io.EOF {
			p.sum = sumText(x.sum)
			return p, nil
		}
		if err != nil {
			return p, err
		}
		if err := p.take(x.Line, e, see); err != nil {
			return p, &LineError{x.Line, err}
		}
		if p.Difference != nil || p.Stopped {
			return p, nil
		}
	}
}

// Replayed is a Result with the state at its end.
type Replayed struct {
	Result
	state  *core.State // nil where it is not known
	before *core.State // of the file before, until the snapshot was compared
	sum    string
	enc    codec
}

// continues reports whether a header follows what was replayed.
func (p *Replayed) continues(h Header) bool {
	return p != nil && p.state != nil && !p.Torn && p.Header.Session == h.Session && p.Header.Segment+1 == h.Segment && p.sum == h.After
}

func (p *Replayed) take(line int, e Entry, see func(Step) bool) error {
	switch {
	case e.Cut != nil:
		p.Gaps = append(p.Gaps, Gap{line, *e.Cut})
		p.state, p.before = nil, nil
		return nil
	case e.State != nil:
		if p.before != nil && !bytes.Equal(saved(p.before), saved(e.State)) {
			return errors.New("the snapshot is not the state in which the file before ends, replayed")
		}
		p.state, p.before = e.State, nil
		p.Node = p.state.Node()
		return nil
	case p.state == nil:
		return errors.New("a decision without a state before it: a snapshot is missing")
	}
	d := *e.Decision
	effects, err := decide(p.state, d)
	if err != nil {
		return err
	}
	p.Node = p.state.Node()
	p.enc.out = p.enc.out[:0]
	p.enc.begin()
	p.enc.writeDecision(d.Now, d.Event, effects)
	p.Decisions++
	if !bytes.Equal(p.enc.out, e.raw) {
		p.Difference = &Difference{line, eventText(d), effectTexts(d.Effects), effectTexts(effects)}
		return nil
	}
	if see != nil && !see(Step{line, d, p.state}) {
		p.Decisions--
		p.Stopped = true
	}
	return nil
}

// decide is Step; a core that breaks down is what the trace is there to show.
func decide(s *core.State, d Decision) (effects []core.Effect, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("the core broke down at %s: %v", eventText(d), why)
		}
	}()
	return s.Step(d.Now, d.Event), nil
}

func saved(s *core.State) []byte {
	var c codec
	c.begin()
	s.Save(&c)
	return c.out
}

// eventText and effectTexts are for a Difference: as in the trace.
func eventText(d Decision) string {
	var c codec
	c.begin()
	c.writeDecision(d.Now, d.Event, nil)
	return string(c.out) + "}"
}

func effectTexts(all []core.Effect) []string {
	var texts []string
	for _, e := range all {
		var c codec
		c.writeEffect(e)
		texts = append(texts, string(c.out))
	}
	return texts
}

func (d *Difference) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "line %d: the core decides otherwise now\n  event     %s\n", d.Line, d.Event)
	for _, list := range []struct {
		name string
		all  []string
	}{{"recorded", d.Recorded}, {"computed", d.Computed}} {
		if len(list.all) == 0 {
			fmt.Fprintf(&b, "  %s  nothing\n", list.name)
		}
		for _, e := range list.all {
			fmt.Fprintf(&b, "  %s  %s\n", list.name, e)
		}
	}
	return b.String()
}
