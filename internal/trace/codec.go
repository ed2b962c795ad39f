package trace

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tenure-go/tenure/core"
)

// codec writes the fields of one JSON object, or reads them: each call does
// either, so that one list of fields serves both. A field with the zero value is
// left out. Written by hand into a buffer that is used again: the node waits for it
// at each decision.
type codec struct {
	out     []byte         // written so far
	in      map[string]any // fields not read yet
	reading bool
	err     error // the first thing that could not be read
}

// reads returns a codec that reads one JSON object.
func reads(line []byte) (*codec, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	c := &codec{reading: true}
	if err := d.Decode(&c.in); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	return c, nil
}

func (c *codec) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// rest fails if a field was not read: this version knows nothing of it.
func (c *codec) rest() {
	if len(c.in) > 0 {
		names := make([]string, 0, len(c.in))
		for name := range c.in {
			names = append(names, name)
		}
		c.fail("the field %q is not known to this version", slices.Min(names))
	}
}

// take returns a field and counts it as read.
func (c *codec) take(name string) (any, bool) {
	v, ok := c.in[name]
	delete(c.in, name)
	return v, ok
}

// key returns what is written, with the name of a field added; the caller adds the
// value and keeps it. To keep each piece would cost more than the piece.
func (c *codec) key(name string) []byte {
	out := c.out
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	out = append(out, '"')
	out = append(out, name...)
	return append(out, '"', ':')
}

func num[T ~int | ~int64 | ~uint64](c *codec, name string, v *T) {
	n := int64(*v)
	c.Number(name, &n)
	if c.reading {
		*v = T(n)
	}
}

func str[T ~string](c *codec, name string, v *T) {
	if !c.reading {
		c.writeText(name, string(*v))
		return
	}
	*v = T(c.readText(name))
}

func (c *codec) flag(name string, v *bool) {
	switch {
	case c.reading:
		got, ok := c.take(name)
		*v, _ = got.(bool)
		if ok && !*v {
			c.fail("%q is %v, want true", name, got)
		}
	case *v:
		c.out = append(c.key(name), "true"...)
	}
}

// word is a number that stands for one of the words. It is never left out: its zero
// means something.
func word[T ~uint8](c *codec, name string, v *T, words []string) {
	if !c.reading {
		if int(*v) < len(words) {
			c.writeText(name, words[*v])
		} else { // the node must not end by it
			c.writeText(name, strconv.Itoa(int(*v)))
		}
		return
	}
	s := c.readText(name)
	i := slices.Index(words, s)
	if i < 0 {
		c.fail("%q is %q, want one of %q", name, s, words)
		return
	}
	*v = T(i)
}

// strs is a list of strings.
func strs[T ~string](c *codec, name string, all *[]T) {
	if c.reading {
		got, _ := c.take(name)
		items, _ := got.([]any)
		for _, item := range items {
			*all = append(*all, T(c.asText(name, item)))
		}
		return
	}
	if len(*all) == 0 {
		return
	}
	c.out = append(c.key(name), '[')
	for i, s := range *all {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = quote(c.out, string(s))
	}
	c.out = append(c.out, ']')
}

// Number is part of core.Archive.
func (c *codec) Number(name string, v *int64) {
	if !c.reading {
		if *v != 0 {
			c.out = strconv.AppendInt(c.key(name), *v, 10)
		}
		return
	}
	*v = 0
	got, ok := c.take(name)
	if !ok {
		return
	}
	n, _ := got.(json.Number)
	i, err := n.Int64()
	if err != nil {
		c.fail("%q is %v, want a whole number", name, got)
	}
	*v = i
}

// Text is part of core.Archive.
func (c *codec) Text(name string, v *string) { str(c, name, v) }

// Group is part of core.Archive: an object in the object.
func (c *codec) Group(name string, fields func()) {
	if c.reading {
		got, ok := c.take(name)
		inner, is := got.(map[string]any)
		if ok && !is {
			c.fail("%q is %v, want an object", name, got)
		}
		c.within(inner, fields)
		return
	}
	mark := len(c.out)
	c.out = append(c.key(name), '{')
	empty := len(c.out)
	fields()
	if len(c.out) == empty {
		c.out = c.out[:mark]
		return
	}
	c.out = append(c.out, '}')
}

// List is part of core.Archive: a list of objects.
func (c *codec) List(name string, n int, item func(i int)) {
	if c.reading {
		got, _ := c.take(name)
		items, _ := got.([]any)
		for i, v := range items {
			inner, is := v.(map[string]any)
			if !is {
				c.fail("item %d of %q is %v, want an object", i, name, v)
			}
			c.within(inner, func() { item(i) })
		}
		return
	}
	if n == 0 {
		return
	}
	c.out = append(c.key(name), '[')
	for i := range n {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, '{')
		item(i)
		c.out = append(c.out, '}')
	}
	c.out = append(c.out, ']')
}

// within reads the fields of an inner object, all of them.
func (c *codec) within(inner map[string]any, fields func()) {
	outer := c.in
	c.in = inner
	fields()
	c.rest()
	c.in = outer
}

func (c *codec) writeText(name, s string) {
	if s != "" {
		c.out = quote(c.key(name), s)
	}
}

func (c *codec) readText(name string) string {
	got, ok := c.take(name)
	if !ok {
		return ""
	}
	return c.asText(name, got)
}

// asText also takes what quote wrote of bytes that are no text.
func (c *codec) asText(name string, got any) string {
	if s, is := got.(string); is {
		return s
	}
	o, _ := got.(map[string]any)
	s, _ := o["hex"].(string)
	raw, err := hex.DecodeString(s)
	if err != nil || len(o) != 1 {
		c.fail("%q is %v, want a string", name, got)
	}
	return string(raw)
}

// quote appends a string. One that is not UTF-8, which JSON cannot hold, becomes
// {"hex":"…"}, since it must come back byte for byte.
func quote(out []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == '"' || s[i] == '\\' || s[i] >= utf8.RuneSelf {
			return quoteRare(out, s)
		}
	}
	out = append(out, '"')
	out = append(out, s...)
	return append(out, '"')
}

func quoteRare(out []byte, s string) []byte {
	if !utf8.ValidString(s) {
		out = append(out, `{"hex":"`...)
		out = hex.AppendEncode(out, []byte(s))
		return append(out, `"}`...)
	}
	quoted, _ := json.Marshal(s) // a string always can be
	return append(out, quoted...)
}

var _ core.Archive = (*codec)(nil)
