package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// object reads the fields of one JSON object. encoding/json alone will not do:
// it matches names without regard to case, lets the last of two equal names
// win, and leaves an absent field at its zero value. The first error sticks;
// after one, every value read is zero.
type object struct {
	fields map[string]json.RawMessage
	err    error
}

// parse takes exactly one object and nothing after it.
func parse(body []byte) *object {
	switch {
	case len(body) > MaxRecord:
		return &object{err: fmt.Errorf("the record has %d bytes, at most %d are allowed", len(body), MaxRecord)}
	case !utf8.Valid(body):
		return &object{err: errors.New("the record is not valid UTF-8")}
	case !json.Valid(body):
		return &object{err: errors.New("the record is not one JSON value")}
	}
	fields, err := split(body)
	return &object{fields, err}
}

// split expects valid JSON.
func split(body []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("a field is named by %v", t)
		}
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("field %.40q is given twice", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		fields[name] = value
	}
	return fields, nil
}

func (o *object) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf(format, args...)
	}
}

func (o *object) has(name string) bool {
	_, ok := o.fields[name]
	return ok
}

// raw is a field that must be there.
func (o *object) raw(name string) string {
	v, ok := o.fields[name]
	if !ok {
		o.fail("field %q is missing", name)
	}
	return string(v)
}

// text is a string field without control characters, of at most limit bytes.
// U+FFFD is refused too: it is what encoding/json makes of half a surrogate.
func (o *object) text(name string, limit int) string {
	v := o.raw(name)
	if o.err != nil {
		return ""
	}
	var s string
	if !strings.HasPrefix(v, `"`) || json.Unmarshal([]byte(v), &s) != nil {
		o.fail("field %q is not a string", name)
		return ""
	}
	if err := checkText(name, s, limit); err != nil {
		o.fail("%w", err)
		return ""
	}
	return s
}

func checkText(name, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("field %q has %d bytes, at most %d are allowed", name, len(s), limit)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unfit) {
		return fmt.Errorf("field %q has a character that is not text", name)
	}
	return nil
}

func unfit(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }

// number is an integer field, written as plain digits, from low to high.
func (o *object) number(name string, low, high int64) int64 {
	v := o.raw(name)
	if o.err != nil {
		return 0
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil {
		o.fail("field %q is not a whole number", name)
		return 0
	}
	if err := checkNumber(name, int64(n), low, high); err != nil {
		o.fail("%w", err)
		return 0
	}
	return int64(n)
}

func checkNumber(name string, n, low, high int64) error {
	if n < low || n > high {
		return fmt.Errorf("field %q is %d, must be from %d to %d", name, n, low, high)
	}
	return nil
}

func (o *object) flag(name string) bool {
	switch o.raw(name) {
	case "true":
		return true
	case "false":
	default:
		o.fail("field %q is not true or false", name)
	}
	return false
}
