package trace

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/tenure-go/tenure/core"
)

// LineError is what is wrong with one line of a trace.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Reader reads one trace file, line by line, and checks the checksums.
type Reader struct {
	Header Header
	// Line is the number of the line read last.
	Line int
	// Torn is true at the end of a file whose last line is not whole: the process
	// or the machine ended while it was written.
	Torn bool

	r   *bufio.Reader
	sum uint32
}

// Entry is one line after the header: one of the three.
type Entry struct {
	Decision *Decision
	Cut      *Cut
	State    *core.State // of a snapshot
	raw      []byte      // the line without its checksum
}

// NewReader reads the header.
func NewReader(r io.Reader) (*Reader, error) {
	x := &Reader{r: bufio.NewReaderSize(r, 1<<16)}
	line, err := x.line()
	if err == io.EOF {
		return nil, errors.New("the trace holds no whole line")
	}
	if err != nil {
		return nil, err
	}
	if err := x.header(line); err != nil {
		return nil, &LineError{x.Line, err}
	}
	return x, nil
}

// header takes the first line, whose format comes before all else.
func (x *Reader) header(line []byte) error {
	c, err := reads(line)
	if err != nil {
		return fmt.Errorf("this is not a trace: %w", err)
	}
	switch got := c.in["tenure_trace"]; {
	case got == nil:
		return errors.New("this is not the beginning of a trace")
	case fmt.Sprint(got) != fmt.Sprint(Format):
		return fmt.Errorf("the trace has format %v, this version reads %d; replay it with the version that recorded it, %v", got, Format, c.in["version"])
	}
	after, _ := c.in["after"].(string)
	raw, err := hex.DecodeString(after)
	if err != nil || len(raw) != 4 {
		return fmt.Errorf("%q is not a checksum", after)
	}
	x.sum = uint32(raw[0])<<24 | uint32(raw[1])<<16 | uint32(raw[2])<<8 | uint32(raw[3])
	if _, err = x.check(line); err != nil {
		return err
	}
	c.header(&x.Header)
	c.take("sum")
	c.rest()
	return c.err
}

// line returns the next whole line; io.EOF at the end.
func (x *Reader) line() ([]byte, error) {
	line, err := x.r.ReadBytes('\n')
	switch {
	case err == io.EOF && len(line) > 0:
		x.Torn = true
		return nil, io.EOF
	case err != nil:
		return nil, err
	}
	x.Line++
	return line[:len(line)-1], nil
}

// check compares the checksum and returns the line without it.
func (x *Reader) check(line []byte) ([]byte, error) {
	n := len(line) - sumSize
	if n < 0 || !bytes.HasPrefix(line[n:], []byte(sumField)) || !bytes.HasSuffix(line, []byte(sumEnd)) {
		return nil, errors.New("the line does not end with its checksum: it was cut or edited")
	}
	sum := crc32.Update(x.sum, castagnoli, line[:n])
	if got := string(line[n+len(sumField) : len(line)-len(sumEnd)]); got != sumText(sum) {
		return nil, fmt.Errorf("its checksum is %s, but what it and the lines before it hold gives %s: it was edited, or lines before it were deleted or moved", got, sumText(sum))
	}
	x.sum = sum
	return line[:n], nil
}

// Next returns the next entry; io.EOF at the end of the file.
func (x *Reader) Next() (Entry, error) {
	line, err := x.line()
	if err != nil {
		return Entry{}, err
	}
	e, err := x.entry(line)
	if err != nil {
		return Entry{}, &LineError{x.Line, err}
	}
	return e, nil
}

func (x *Reader) entry(line []byte) (e Entry, err error) {
	if e.raw, err = x.check(line); err != nil {
		return e, err
	}
	c, err := reads(line)
	if err != nil {
		return e, err
	}
	c.take("sum")
	switch {
	case c.in["cut"] != nil:
		e.Cut = new(Cut)
		c.cutFields(e.Cut)
	case c.in["snapshot"] != nil:
		c.Group("snapshot", func() { e.State, err = core.Restore(c) })
	default:
		d := c.readDecision()
		e.Decision = &d
	}
	c.rest()
	return e, errors.Join(c.err, err)
}
