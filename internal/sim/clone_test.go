package sim

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
)

// A clone of a core's state shares no memory with its original (but for strings,
// which nobody can change). The worlds check that both decide alike.
func TestCloneSharesNothing(t *testing.T) {
	cloned := 0
	wander(10, func(s *core.State) {
		checkApart(t, s, s.Clone())
		cloned++
	})
	if cloned < 100 {
		t.Errorf("only %d states were cloned", cloned)
	}
}

// wander shows the states of some fleets in trouble.
func wander(seeds uint64, look func(*core.State)) {
	for seed := uint64(1); seed <= seeds; seed++ {
		w := newWorld(short(seed, time.Minute))
		for _, m := range w.machines {
			w.boot(m)
		}
		w.planFaults()
		w.traffic()
		for range 10 {
			w.run(w.t + 2*second)
			for _, p := range w.procs {
				if p.state != nil {
					look(p.state)
				}
			}
		}
		w.close()
	}
}

func checkApart(t *testing.T, a, b *core.State) {
	t.Helper()
	mine := memory{}
	mine.walk(reflect.ValueOf(a), "State")
	other := memory{}
	other.walk(reflect.ValueOf(b), "State")
	for at, path := range other {
		if mine[at] != "" {
			t.Fatalf("a clone shares %s with the original's %s", path, mine[at])
		}
	}
	// Effects of the last Step are not part of a clone.
	delete(mine, 0)
	if len(mine) < len(other) {
		t.Fatalf("a clone holds %d pieces of memory, its original %d", len(other), len(mine))
	}
}

// memory maps the address of each piece of memory to how it was reached.
type memory map[uintptr]string

// enter notes a piece of memory and reports whether it is new. Empty slices
// share one address and no memory.
func (m memory) enter(v reflect.Value, path string) bool {
	if v.Pointer() == 0 || m[v.Pointer()] != "" || v.Kind() == reflect.Slice && v.Cap() == 0 {
		return false
	}
	m[v.Pointer()] = path
	return true
}

func (m memory) walk(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if m.enter(v, path) {
			m.walkValue(v.Elem(), path)
		}
	case reflect.Slice:
		if m.enter(v, path) {
			for i := range v.Len() {
				m.walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	case reflect.Map:
		if m.enter(v, path) {
			for it := v.MapRange(); it.Next(); {
				m.walk(it.Value(), fmt.Sprintf("%s[%v]", path, it.Key()))
			}
		}
	default:
		m.walkValue(v, path)
	}
}

func (m memory) walkValue(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			m.walk(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		m.walk(v, path)
	}
}
