package trace

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

// checkXML wants a well-formed element, without a reference to anything outside.
func checkXML(t *testing.T, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, s)
		}
		if e, is := tok.(xml.StartElement); is {
			for _, a := range e.Attr {
				if a.Name.Local == "href" || a.Name.Local == "src" || strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Fatalf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
}
