package check

import (
	"fmt"
	"strings"

	"github.com/tenure-go/tenure/core"
)

// story tells what happens, for people.
type story struct{ strings.Builder }

func (w *world) tell(format string, args ...any) {
	if w.story != nil {
		fmt.Fprintf(w.story, format+"\n", args...)
	}
}

// tellChoice says what is about to happen, and to whom.
func (w *world) tellChoice(before *world, c choice) {
	if w.story == nil {
		return
	}
	k := c.kind &^ stopBit
	switch {
	case k == passTime:
		w.tell("%d", before.now+1)
		return
	case k == deliver || k == perform || k >= loseReply:
		o := before.flight[c.a]
		what := "the answer to a request that was forwarded"
		if o.effect != nil {
			what = describe(o.effect)
		}
		w.tell("  %s of %s: %s", what, o.node, opWords[k])
	default:
		id := before.machines[c.a].id
		if id == "" {
			id = core.NodeID(rune('A' + c.a))
		}
		w.tell("  %s: %s", id, machineWords(k, c))
	}
}

var opWords = map[kind]string{
	deliver: "it is carried out, or answered", perform: "it is carried out, and not answered yet",
	loseReply: "it is carried out, and the answer is lost", loseCall: "it never gets there",
	slowReply: "it is slow", landLater: "it will land at some time, and its answer be lost",
	refuse: "the store refuses it", contend: "the store says that another write is under way",
	cut: "the connection fails",
}

func machineWords(k kind, c choice) string {
	switch k {
	case tick:
		return "it is time"
	case finish:
		return fmt.Sprintf("the application is done with request %d", c.b)
	case arrive:
		return "a client asks for " + string(cellNames[c.b])
	case evict:
		return "somebody has it give up " + string(cellNames[c.b])
	}
	return [...]string{
		boot: "a process starts", thaw: "the process goes on", crash: "the process crashes",
		freeze: "the process stops", drain: "is asked to drain", remove: "somebody deletes its lease record",
	}[k]
}

// tellStep says what a process was told and decided.
func (w *world) tellStep(i int, ev core.Event, effects []core.Effect) {
	if w.story == nil {
		return
	}
	m := &w.machines[i]
	w.tell("    %s at %d takes %s", m.id, m.clock, describe(ev))
	for _, e := range effects {
		w.tell("      and decides %s", describe(e))
	}
}

// describe is the kind of an event or effect with what is in it.
func describe(v any) string {
	if wr, is := v.(core.WriteOwner); is && wr.Evidence != nil {
		ev := *wr.Evidence
		wr.Evidence = nil
		return describe(wr) + " because of " + describe(ev)
	}
	text := strings.TrimPrefix(fmt.Sprintf("%T%+v", v, v), "core.")
	return emptyFields.Replace(text)
}

// emptyFields hides what says nothing.
var emptyFields = strings.NewReplacer(
	" Stamps:{Date:0 HasDate:false Modified:0 HasModified:false}", "", " Fresh:false", "", " Own:false", "",
	" Try:false", "", " Forwarded:false", "", " Evidence:<nil>", "", " Refusal:{Code: Ran:false RetryAfter:0 Detail: Node: Epoch:0}", "",
	" Takeover:false", "", " Released:false", "",
)
