package core_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/tenure-go/tenure/core"
)

// archive is a core.Archive in memory: what was saved is loaded in the same order.
type archive struct {
	fields  []string
	loading bool
	wrong   string // the first field that was loaded under another name
}

func (a *archive) field(name, value string) string {
	if !a.loading {
		a.fields = append(a.fields, name+"="+value)
		return value
	}
	if len(a.fields) == 0 || !strings.HasPrefix(a.fields[0], name+"=") {
		a.wrong, a.fields = name, nil
		return ""
	}
	value = a.fields[0][len(name)+1:]
	a.fields = a.fields[1:]
	return value
}

func (a *archive) Number(name string, v *int64) {
	_, _ = fmt.Sscan(a.field(name, fmt.Sprint(*v)), v)
}
func (a *archive) Text(name string, v *string)   { *v = a.field(name, *v) }
func (a *archive) Group(_ string, fields func()) { fields() }

func (a *archive) List(name string, n int, item func(int)) {
	stored := int64(n)
	a.Number(name, &stored)
	for i := range int(stored) {
		item(i)
	}
}

func saved(s *core.State) []string {
	var a archive
	s.Save(&a)
	return a.fields
}

// restored is the state of a process, saved and restored.
func restored(p *proc) *core.State {
	a := archive{fields: saved(p.s), loading: true}
	s, err := core.Restore(&a)
	if err != nil || a.wrong != "" || len(a.fields) > 0 {
		p.w.violated("restoring %s: %v; wrong field %q, %d left", p.s.Node(), err, a.wrong, len(a.fields))
		return p.s.Clone()
	}
	return s
}

// Every field of the state is saved: what is saved changes with it. The fields are
// found by reflection in the states of some worlds, so that one which is added to
// the state, and not to what is saved, is found too.
func TestEveryFieldIsSaved(t *testing.T) {
	seen := map[string]bool{}
	for seed := uint64(1); seed <= 40; seed++ {
		w := newWorld(seed)
		for m := range w.plan.machines {
			w.in(w.delay(), func() { w.boot(m) })
		}
		w.in(1, w.chaos)
		w.in(1, w.traffic)
		for range 20 {
			w.run(ttl / 3)
			for _, p := range w.procs {
				eachField(p.s.Clone(), seen, func(s *core.State, path string) {
					t.Errorf("%s is not saved", path)
				})
			}
		}
	}
	all := map[reflect.Type]bool{}
	structs(reflect.TypeFor[core.State](), all)
	for typ := range all {
		for i := range typ.NumField() {
			name := typ.Name() + "." + typ.Field(i).Name
			if isLeaf(typ.Field(i).Type) && !seen[name] {
				t.Errorf("no state had a %s to change", name)
			}
		}
	}
}

func isLeaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return false
	}
	return true
}

// structs are the struct types of the core that a type is made of.
func structs(t reflect.Type, all map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		structs(t.Elem(), all)
	case reflect.Map:
		structs(t.Elem(), all)
	case reflect.Struct:
		if all[t] || derived(t.Name()) {
			return
		}
		all[t] = true
		for i := range t.NumField() {
			structs(t.Field(i).Type, all)
		}
	}
}

// derived parts hold nothing of their own: the effects of the last Step are not
// part of a state, and a list of cells is saved as their names.
func derived(name string) bool { return name == "out" || name == "cellList" }

// eachField changes each field of a state that was not seen yet, one at a time,
// and reports those with which what is saved does not change.
func eachField(s *core.State, seen map[string]bool, missed func(*core.State, string)) {
	before := saved(s)
	visited := map[unsafe.Pointer]bool{}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && !visited[v.UnsafePointer()] {
				visited[v.UnsafePointer()] = true
				walk(v.Elem(), path)
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), path)
			}
		case reflect.Map:
			for it := v.MapRange(); it.Next(); {
				walk(it.Value(), path)
			}
		case reflect.Struct:
			if derived(v.Type().Name()) {
				return
			}
			for i := range v.NumField() {
				f, name := v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name
				if !isLeaf(f.Type()) {
					walk(f, name)
				} else if f.CanAddr() && !seen[name] {
					seen[name] = true
					undo := change(f)
					if slices.Equal(before, saved(s)) {
						missed(s, name)
					}
					undo()
				}
			}
		}
	}
	walk(reflect.ValueOf(s), "State")
}

// change gives an unexported field another value, until undo.
func change(f reflect.Value) (undo func()) {
	v := reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Uint, reflect.Uint8, reflect.Uint64:
		v.SetUint(v.Uint() ^ 1)
	default:
		v.SetInt(v.Int() ^ 1)
	}
	return func() { v.Set(old) }
}
