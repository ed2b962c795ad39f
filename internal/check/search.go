package check

import (
	"hash/maphash"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Run visits every state, or as many as the limits allow. An error says that the
// Config is wrong.
func Run(cfg Config) (Report, error) {
	if err := cfg.Check(); err != nil {
		return Report{}, err
	}
	if cfg.Workers == 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	// Nearly all that is made is thrown away at once; collecting it less often halves
	// the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	s := &search{cfg: &cfg, start: time.Now(), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range s.seen {
		s.seen[i].m = map[key]struct{}{}
	}
	first := newWorld(&cfg)
	s.steps = append(s.steps, step{})
	s.add(newFormer(&cfg).form(first))
	return s.run([]found{{w: first}}), nil
}

// search is breadth first, one depth after the other.
type search struct {
	cfg   *Config
	start time.Time
	seeds [2]maphash.Seed
	seen  [64]shard

	mu    sync.Mutex
	steps []step // of each state, how it was first reached
	bad   *found

	transitions atomic.Int64
	full        atomic.Bool // a limit was reached
}

// key stands for a form. That two of them share 128 bits is left to chance.
type key [2]uint64

type shard struct {
	sync.Mutex
	m map[key]struct{}
}

// step is the choice that leads to a state, from another.
type step struct {
	from   uint32
	choice choice
}

// found is a state that was not seen before.
type found struct {
	w  *world
	id uint32
}

// add reports whether a form is new.
func (s *search) add(form []byte) bool {
	k := key{maphash.Bytes(s.seeds[0], form), maphash.Bytes(s.seeds[1], form)}
	sh := &s.seen[k[0]%uint64(len(s.seen))]
	sh.Lock()
	defer sh.Unlock()
	n := len(sh.m)
	sh.m[k] = struct{}{}
	return len(sh.m) > n
}

func (s *search) run(frontier []found) Report {
	depth := 0
	for len(frontier) > 0 && s.bad == nil && !s.full.Load() {
		frontier = s.expand(frontier)
		depth++
		if s.cfg.Progress != nil {
			s.cfg.Progress(s.report(depth, len(frontier) == 0))
		}
	}
	r := s.report(depth, len(frontier) == 0 && s.bad == nil)
	if s.bad != nil {
		r.Violation, r.Story = s.bad.w.bad, s.tell(s.bad.id)
	}
	return r
}

func (s *search) report(depth int, complete bool) Report {
	return Report{
		States: len(s.steps), Transitions: int(s.transitions.Load()), Depth: depth,
		Elapsed: time.Since(s.start), Complete: complete && !s.full.Load(),
	}
}

// expand makes every choice in every state of one depth.
func (s *search) expand(frontier []found) []found {
	var next atomic.Int64
	results := make([][]found, s.cfg.Workers)
	var wg sync.WaitGroup
	for n := range s.cfg.Workers {
		wg.Go(func() {
			x := &expander{search: s, former: newFormer(s.cfg)}
			for !s.full.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(frontier) {
					break
				}
				x.expand(frontier[i])
				frontier[i].w = nil
			}
			results[n] = x.out
		})
	}
	wg.Wait()
	return slices.Concat(results...)
}

// expander is one worker.
type expander struct {
	*search
	former  *former
	choices []choice
	out     []found
}

func (x *expander) expand(f found) {
	x.choices = f.w.choices(x.choices[:0])
	x.transitions.Add(int64(len(x.choices)))
	for _, c := range x.choices {
		w := f.w.make(c)
		if w.bad == "" && !x.add(x.former.form(w)) {
			continue
		}
		id := x.note(step{from: f.id, choice: c}, w)
		x.out = append(x.out, found{w: w, id: id})
	}
	if x.cfg.MaxTime > 0 && time.Since(x.start) > x.cfg.MaxTime {
		x.full.Store(true)
	}
}

// note numbers a new state.
func (s *search) note(st step, w *world) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := uint32(len(s.steps))
	s.steps = append(s.steps, st)
	if w.bad != "" && s.bad == nil {
		s.bad = &found{w: w, id: id}
	}
	if s.cfg.MaxStates > 0 && len(s.steps) >= s.cfg.MaxStates {
		s.full.Store(true)
	}
	return id
}

// tell goes the way to a state again, and says what happens.
func (s *search) tell(id uint32) string {
	var way []choice
	for ; id != 0; id = s.steps[id].from {
		way = append(way, s.steps[id].choice)
	}
	slices.Reverse(way)
	w := newWorld(s.cfg)
	w.story = &story{}
	for _, c := range way {
		w = w.make(c)
	}
	w.tell("VIOLATED %s", w.bad)
	return w.story.String()
}
