package sim

import (
	"fmt"

	"github.com/tenure-go/tenure/core"
)

// archive is a core.Archive in memory: what was saved is loaded in the same order.
type archive struct {
	fields  []field
	loading bool
	at      int    // the next to load
	wrong   string // the first field that was loaded under another name
}

type field struct {
	name   string
	number int64
	text   string
}

// next is the field to save or to load.
func (a *archive) next(name string) *field {
	if !a.loading {
		a.fields = append(a.fields, field{name: name})
		return &a.fields[len(a.fields)-1]
	}
	if a.wrong != "" || a.at == len(a.fields) || a.fields[a.at].name != name {
		if a.wrong == "" {
			a.wrong = name
		}
		return &field{}
	}
	a.at++
	return &a.fields[a.at-1]
}

// Number implements core.Archive.
func (a *archive) Number(name string, v *int64) {
	if f := a.next(name); a.loading {
		*v = f.number
	} else {
		f.number = *v
	}
}

// Text implements core.Archive.
func (a *archive) Text(name string, v *string) {
	if f := a.next(name); a.loading {
		*v = f.text
	} else {
		f.text = *v
	}
}

// Group implements core.Archive.
func (a *archive) Group(_ string, fields func()) { fields() }

// List implements core.Archive.
func (a *archive) List(name string, n int, item func(int)) {
	stored := int64(n)
	a.Number(name, &stored)
	for i := range int(stored) {
		item(i)
	}
}

func saved(s *core.State) []field {
	var a archive
	s.Save(&a)
	return a.fields
}

// restored is a state that was saved and restored.
func restored(s *core.State) (*core.State, error) {
	a := archive{fields: saved(s), loading: true}
	twin, err := core.Restore(&a)
	if err == nil && (a.wrong != "" || a.at < len(a.fields)) {
		err = fmt.Errorf("field %q was not saved in its place, and %d are left", a.wrong, len(a.fields)-a.at)
	}
	return twin, err
}
