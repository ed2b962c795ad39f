// Package demo is the demonstration application: a counter per cell, with a
// stream of server-sent events, a WebSocket echo and an answer that takes its
// time. It keeps everything in memory, and a cell's state for one epoch only,
// which is how an application behind Tenure without a store of its own must
// behave.
package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Cell is one epoch of a cell. It is small: most cells are never watched. Its
// answers name the node that the request was given to (Tenure-Node).
type Cell struct {
	name  string
	epoch uint64

	mu      sync.Mutex
	count   uint64
	watched int
	changed chan struct{} // closed at the next change; nil while nobody watches
}

// New begins an epoch of a cell, with a count of zero.
func New(name string, epoch uint64) *Cell { return &Cell{name: name, epoch: epoch} }

// state is an answer.
type state struct {
	Cell  string `json:"cell"`
	Node  string `json:"node"`
	Epoch uint64 `json:"epoch"`
	Count uint64 `json:"count"`
}

func (c *Cell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/events":
		c.only(w, r, c.events)
	case "/ws":
		c.only(w, r, c.echo)
	case "/slow":
		c.only(w, r, c.slow)
	default:
		c.counter(w, r)
	}
}

// only serves GET (and HEAD, for which net/http drops the body).
func (c *Cell) only(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		notAllowed(w, "GET, HEAD")
		return
	}
	serve(w, r)
}

func notAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	http.Error(w, "allowed are "+allow, http.StatusMethodNotAllowed)
}

func (c *Cell) counter(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		c.answer(w, r, c.read())
	case http.MethodPost:
		c.answer(w, r, c.add())
	default:
		notAllowed(w, "GET, HEAD, POST")
	}
}

func (c *Cell) answer(w http.ResponseWriter, r *http.Request, count uint64) {
	body := append(c.json(r, count), '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) // the client may be gone
}

func (c *Cell) json(r *http.Request, count uint64) []byte {
	b, err := json.Marshal(state{c.name, r.Header.Get("Tenure-Node"), c.epoch, count})
	if err != nil { // strings and numbers always marshal
		panic(err)
	}
	return b
}

func (c *Cell) read() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

func (c *Cell) add() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.wake()
	return c.count
}

// wake tells the watchers; c.mu is held.
func (c *Cell) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// watch returns the count, and a channel that is closed when it changes.
func (c *Cell) watch() (count uint64, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.count, c.changed
}

// maxSlow is the longest that /slow takes.
const maxSlow = 5 * time.Minute

func (c *Cell) slow(w http.ResponseWriter, r *http.Request) {
	d, err := slowFor(r.URL.Query().Get("for"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		c.answer(w, r, c.read())
	case <-r.Context().Done():
	}
}

func slowFor(s string) (time.Duration, error) {
	if s == "" {
		return 2 * time.Second, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxSlow {
		return 0, fmt.Errorf("for=%q: must be a duration from 0s to %v, such as 2s", s, maxSlow)
	}
	return d, nil
}
