package trace

import (
	"fmt"
	"hash/crc32"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Format is the version of the lines. It changes with every change of what is
// written, and with every change of core.State.Save.
const Format = 1

// Header is the first line of a trace file.
type Header struct {
	Format  int
	Version string // of the tenure that recorded it
	Session string // random: the files of one session have the same
	Segment int    // counts the session's files, from 1
	After   string // the checksum of the line before, in the file before
	Name    string // of the node
	// Wall is this machine's wall clock at Now of the node's own clock. It is for
	// people, and to lay the traces of several nodes side by side.
	Wall   time.Time
	Now    core.Time
	Config core.Config
}

// Cut says that decisions are missing.
type Cut struct {
	Lost int64 // how many
	Why  string
}

func (c Cut) String() string { return fmt.Sprintf("%d decisions are missing: %s", c.Lost, c.Why) }

// Decision is one step of the core.
type Decision struct {
	Now     core.Time
	Event   core.Event
	Effects []core.Effect
}

func (c *codec) header(h *Header) {
	num(c, "tenure_trace", &h.Format)
	str(c, "version", &h.Version)
	str(c, "session", &h.Session)
	num(c, "segment", &h.Segment)
	str(c, "after", &h.After)
	str(c, "name", &h.Name)
	wall := h.Wall.Format(time.RFC3339Nano)
	str(c, "wall", &wall)
	if c.reading {
		var err error
		if h.Wall, err = time.Parse(time.RFC3339Nano, wall); err != nil {
			c.fail("%q is not a time", wall)
		}
	}
	num(c, "t", &h.Now)
	c.Group("config", func() { h.Config.Fields(c) })
}

func (c *codec) cutFields(cut *Cut) {
	c.Group("cut", func() {
		num(c, "lost", &cut.Lost)
		str(c, "why", &cut.Why)
	})
}

func (c *codec) writeDecision(now core.Time, ev core.Event, effects []core.Effect) {
	num(c, "t", &now)
	c.writeEvent(ev)
	c.writeEffects(effects)
}

func (c *codec) readDecision() Decision {
	var d Decision
	num(c, "t", &d.Now)
	d.Event = c.readEvent()
	d.Effects = c.readEffects()
	return d
}

// Every line ends with its checksum, as a field of its own. It is over the line
// without that field, and over all lines before it.
const (
	sumField = `,"sum":"`
	sumEnd   = `"}`
	sumSize  = len(sumField) + 8 + len(sumEnd)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// begin and endLine enclose the fields of a line. endLine takes where begin was, and the
// checksum of the line before; it returns this line's.
func (c *codec) begin() (mark int) {
	mark = len(c.out)
	c.out = append(c.out, '{')
	return mark
}

func (c *codec) endLine(mark int, sum uint32) uint32 {
	sum = crc32.Update(sum, castagnoli, c.out[mark:])
	text := sumBytes(sum)
	out := append(c.out, sumField...)
	out = append(out, text[:]...)
	c.out = append(out, sumEnd+"\n"...)
	return sum
}

// sumBytes is a checksum as eight hexadecimal digits.
func sumBytes(sum uint32) (b [8]byte) {
	for i := range b {
		b[i] = "0123456789abcdef"[sum>>(28-4*i)&15]
	}
	return b
}

func sumText(sum uint32) string {
	b := sumBytes(sum)
	return string(b[:])
}
