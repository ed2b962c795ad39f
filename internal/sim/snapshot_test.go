package sim

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/tenure-go/tenure/core"
)

// Every field of a core's state is saved: what is saved changes with it. The fields are
// found by reflection in the states of some worlds, so that one which is added to
// the state, and not to what is saved, is found too.
func TestEveryFieldIsSaved(t *testing.T) {
	seen := map[string]bool{}
	wander(60, func(s *core.State) {
		eachField(s.Clone(), seen, func(s *core.State, path string) {
			t.Errorf("%s is not saved", path)
		})
	})
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
