package trace

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/core"
)

// coreTypes are the types in package core that have a method of that name and
// parameter: its sealed kinds, read from the source, so that a new one is found.
func coreTypes(t *testing.T, method string) []string {
	t.Helper()
	files, err := filepath.Glob("../../core/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no source of the core", err)
	}
	var names []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == method {
				if id, ok := fn.Recv.List[0].Type.(*ast.Ident); ok {
					names = append(names, id.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// Every event is recorded with every field, and comes back as it was.
func TestEventsRoundTrip(t *testing.T) {
	var known []string
	for kind, read := range events {
		name := reflect.TypeOf(read(&codec{reading: true})).Name()
		known = append(known, name)
		for _, ev := range filled(t, reflect.TypeOf(read(&codec{reading: true}))) {
			var c codec
			c.begin()
			c.writeDecision(7, ev.(core.Event), nil)
			if !strings.Contains(string(c.out), `"on":"`+kind+`"`) {
				t.Errorf("%s is written as %s, read as %q", name, c.out, kind)
			}
			d := readBack(t, &c)
			if !reflect.DeepEqual(d.Event, ev) || d.Now != 7 {
				t.Errorf("%s\nwas  %+v\nback %+v", c.out, ev, d.Event)
			}
		}
	}
	slices.Sort(known)
	if want := coreTypes(t, "apply"); !slices.Equal(known, want) || len(want) == 0 {
		t.Errorf("the events of the core are\n%v\nknown here are\n%v", want, known)
	}
}

// Every effect too.
func TestEffectsRoundTrip(t *testing.T) {
	var known []string
	for kind, read := range effectKinds {
		name := reflect.TypeOf(read(&codec{reading: true})).Name()
		known = append(known, name)
		for _, e := range filled(t, reflect.TypeOf(read(&codec{reading: true}))) {
			var c codec
			c.begin()
			c.writeDecision(7, core.Tick{}, []core.Effect{e.(core.Effect), core.Mint{Op: 1}})
			if !strings.Contains(string(c.out), `{"do":"`+kind+`"`) {
				t.Errorf("%s is written as %s, read as %q", name, c.out, kind)
			}
			d := readBack(t, &c)
			if len(d.Effects) != 2 || !reflect.DeepEqual(d.Effects[0], e) {
				t.Errorf("%s\nwas  %+v\nback %+v", c.out, e, d.Effects)
			}
		}
	}
	slices.Sort(known)
	if want := coreTypes(t, "Do"); !slices.Equal(known, want) || len(want) == 0 {
		t.Errorf("the effects of the core are\n%v\nknown here are\n%v", want, known)
	}
}

func readBack(t *testing.T, c *codec) Decision {
	t.Helper()
	in, err := reads(append(c.out, '}'))
	if err != nil {
		t.Fatalf("%s: %v", c.out, err)
	}
	d := in.readDecision()
	in.rest()
	if in.err != nil {
		t.Fatalf("%s: %v", c.out, in.err)
	}
	return d
}

// filled returns values of a type: one with every field set, one with strings that
// are hard to write, and the zero value.
func filled(t *testing.T, typ reflect.Type) []any {
	t.Helper()
	var all []any
	for _, text := range []string{"text", "\x00\"\\\n<&>\u2028é\U0001F600", "\xff\xfe no UTF-8", ""} {
		v := reflect.New(typ).Elem()
		if text != "" {
			n := int64(0)
			fill(t, v, text, &n)
		}
		all = append(all, v.Interface())
	}
	return all
}

func fill(t *testing.T, v reflect.Value, text string, n *int64) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), text, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), text, n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), text, n)
		fill(t, v.Index(1), text, n)
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*n | 1<<62) // more than a float holds
	case reflect.Uint64:
		v.SetUint(uint64(*n) | 1<<63)
	case reflect.Uint8: // one of some words
		v.SetUint(uint64(*n)%3 + 1)
	default:
		t.Fatalf("a field of kind %s, which the codec does not know", v.Kind())
	}
}

// The words are as many as the core has constants.
func TestWordsAreComplete(t *testing.T) {
	for _, c := range []struct {
		words []string
		last  uint8
	}{
		{writeOutcomes, uint8(core.Contended)}, {readOutcomes, uint8(core.BadRecord)}, {forwardFailures, uint8(core.PeerRefused)},
	} {
		if len(c.words) != int(c.last)+1 {
			t.Errorf("%q are %d words, the core has %d", c.words, len(c.words), c.last+1)
		}
	}
}

// What is not known is refused, not passed over.
func TestUnknownIsRefused(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"t":1,"on":"sleep"}`, `"sleep" is not known`},
		{`{"t":1,"on":"tick","why":3}`, `field "why" is not known`},
		{`{"t":1,"on":"tick","do":[{"do":"dance"}]}`, `"dance" is not known`},
		{`{"t":1,"on":"tick","do":[{"do":"mint","op":1,"x":1}]}`, `field "x" is not known`},
		{`{"t":1.5,"on":"tick"}`, `"t" is 1.5`},
		{`{"t":1,"on":"evict","cell":3}`, `"cell" is 3`},
		{`{"t":1,"on":"activated","ok":1}`, `"ok" is 1`},
		{`{"t":1,"on":"owner-read","outcome":"maybe"}`, `"outcome" is "maybe"`},
	} {
		in, err := reads([]byte(c.line))
		if err != nil {
			t.Fatal(err)
		}
		in.readDecision()
		in.rest()
		if in.err == nil || !strings.Contains(in.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.line, in.err, c.want)
		}
	}
}
