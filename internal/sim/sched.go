package sim

import (
	"fmt"
	"iter"
	"runtime/debug"
)

// event is something that happens at an instant of real (simulated) time, in
// nanoseconds.
type event struct {
	at  int64
	seq uint64
	do  func()
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// agenda is a heap of events.
type agenda []event

func (a *agenda) push(e event) {
	h := append(*a, e)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*a = h
}

func (a *agenda) pop() event {
	h := *a
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*a = h
	return first
}

// in has something happen after a while.
func (w *world) in(after int64, do func()) {
	w.seq++
	w.agenda.push(event{w.t + max(0, after), w.seq, do})
}

// spinLimit is how many events may happen at one instant.
const spinLimit = 1_000_000

// run lets the world go on until an instant, or until something is violated.
func (w *world) run(until int64) {
	spin := 0
	for w.bad == nil && len(w.agenda) > 0 && w.agenda[0].at <= until {
		e := w.agenda.pop()
		if spin++; e.at > w.t {
			spin = 0
		} else if spin > spinLimit {
			w.violated("progress", "%d events happened at one instant", spin)
		}
		w.t = e.at
		e.do()
		w.events++
	}
	if w.bad == nil {
		w.t = max(w.t, until)
	}
}

// co is a coroutine: it runs one job after another, and gives way wherever
// the job would block.
type co struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	job   func()
	ready func() bool // may it go on; while it is parked
}

// killed unwinds a coroutine whose process is gone.
type killed struct{}

// take returns a coroutine for a job.
func (w *world) take(job func()) *co {
	if n := len(w.free); n > 0 {
		c := w.free[n-1]
		w.free = w.free[:n-1]
		c.job = job
		return c
	}
	c := &co{job: job}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for {
			w.perform(c)
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// perform runs a job to its end. A panic of what is simulated is a finding.
func (w *world) perform(c *co) {
	defer func() {
		c.job = nil
		if r := recover(); r != nil {
			if _, is := r.(killed); !is {
				w.violated("panic", "%v\n%s", r, debug.Stack())
			}
		}
	}()
	c.job()
}

// resume lets a coroutine go on until it parks or its job ends.
func (w *world) resume(c *co) {
	w.current = c
	c.next()
	w.current = nil
	if c.job == nil {
		w.free = append(w.free, c)
	}
}

// kill ends a parked coroutine where it stands.
func (w *world) kill(c *co) {
	c.stop()
}

// close ends all coroutines.
func (w *world) close() {
	for _, p := range w.procs {
		p.dead = true
		p.killAll()
	}
	for _, c := range w.free {
		c.stop()
	}
}

// start gives a process something to do, as a coroutine of its own.
func (p *proc) start(job func()) {
	if p.dead {
		return
	}
	p.starting = append(p.starting, job)
	p.poke()
}

// park gives way until ready.
func (p *proc) park(ready func() bool) {
	c := p.w.current
	if p.dead || c == nil {
		return // unwinding
	}
	c.ready = ready
	p.parked = append(p.parked, c)
	if !c.yield(struct{}{}) {
		panic(killed{})
	}
}

// sleep parks for a while of real time, or until done; nil: never.
func (p *proc) sleep(d int64, done func() bool) {
	until := p.w.t + d
	p.w.in(d, p.poke)
	p.park(func() bool { return p.w.t >= until || done != nil && done() })
}

// poke lets everything of a process go on that can, one after another.
func (p *proc) poke() {
	if p.w.current != nil || p.poking {
		return // whoever runs it now goes on after it
	}
	p.poking = true
	for !p.dead && p.w.bad == nil && !p.stops() {
		c := p.pick()
		if c == nil {
			break
		}
		p.w.resume(c)
	}
	p.poking = false
}

// pick chooses what goes on: the oldest new job, or anything that was parked
// and is ready.
func (p *proc) pick() *co {
	fresh := len(p.starting) > 0
	if fresh && !p.resuming && (len(p.parked) == 0 || p.rng.IntN(4) > 0) {
		return p.takeFirst()
	}
	if n := len(p.parked); n > 0 {
		from := 0
		if n > 1 && p.rng.IntN(4) == 0 {
			from = p.rng.IntN(n)
		}
		for i := range n {
			at := (from + i) % n
			if c := p.parked[at]; c.ready() {
				p.parked = append(p.parked[:at], p.parked[at+1:]...)
				return c
			}
		}
	}
	p.resuming = false
	if fresh {
		return p.takeFirst()
	}
	return nil
}

func (p *proc) takeFirst() *co {
	job := p.starting[0]
	p.starting = append(p.starting[:0], p.starting[1:]...)
	return p.w.take(job)
}

// killAll ends every coroutine of a process.
func (p *proc) killAll() {
	parked := p.parked
	p.parked, p.starting = nil, nil
	for _, c := range parked {
		p.w.kill(c)
	}
}

func (w *world) violated(property, format string, args ...any) {
	if w.bad == nil {
		w.bad = &Violation{Property: property, At: w.t, Text: fmt.Sprintf(format, args...)}
		w.logf("VIOLATION of %s: %s", property, w.bad.Text)
	}
}
