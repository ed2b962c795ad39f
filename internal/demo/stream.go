package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

const (
	// maxWatchers bounds the event streams of one cell.
	maxWatchers = 1000
	// heartbeat is the time between comments on an event stream.
	heartbeat = 15 * time.Second
	// maxMessage is the longest WebSocket message, in bytes.
	maxMessage = 64 << 10
	// writeTimeout is for a client that does not read.
	writeTimeout = 10 * time.Second
)

// events streams the count: one event when the stream begins, one for every
// change, and a comment now and then, so that nobody on the way thinks that the
// connection is dead.
func (c *Cell) events(w http.ResponseWriter, r *http.Request) {
	if !c.enter() {
		http.Error(w, "too many event streams on this cell", http.StatusServiceUnavailable)
		return
	}
	defer c.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprint(w, "retry: 1000\n")
	sent := c.read()
	err := c.send(w, r, sent)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for err == nil {
		count, changed := c.watch()
		for ; sent < count && err == nil; sent++ {
			err = c.send(w, r, sent+1)
		}
		if err != nil {
			return
		}
		select {
		case <-changed:
		case <-beat.C:
			fmt.Fprint(w, ": still here\n\n")
			err = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (c *Cell) send(w http.ResponseWriter, r *http.Request, count uint64) error {
	fmt.Fprintf(w, "event: count\nid: %d\ndata: %s\n\n", count, c.json(r, count))
	return http.NewResponseController(w).Flush()
}

func (c *Cell) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched >= maxWatchers {
		return false
	}
	c.watched++
	return true
}

func (c *Cell) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched--
}

// echo sends every WebSocket message back.
func (c *Cell) echo(w http.ResponseWriter, r *http.Request) {
	// An echo has nothing to protect from other origins.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	for echoOne(r.Context(), conn) == nil {
	}
}

func echoOne(ctx context.Context, conn *websocket.Conn) error {
	kind, msg, err := conn.Read(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, writeTimeout)
	defer stop()
	return conn.Write(ctx, kind, msg)
}
