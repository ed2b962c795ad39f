package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tenure-go/tenure/core"
)

// Protocol is the version of what peers say to each other. Nodes with different
// ones do not call each other.
const Protocol = 1

// ProbePath is answered without side effects and without a client key, unless
// the request is meant for a session: then the path is the application's.
const ProbePath = "/.tenure/probe"

const maxProbe = 4 << 10 // bytes

// probe is the answer.
type probe struct {
	Version  string      `json:"version"`
	Node     core.NodeID `json:"node"`
	Protocol int         `json:"protocol"`
}

func isProbe(r *http.Request) bool {
	return r.URL.Path == ProbePath && r.Header[headerTo] == nil &&
		(r.Method == http.MethodGet || r.Method == http.MethodHead)
}

func (s *Server) answerProbe(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Connection", "close") // a stranger holds nothing here
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(probe{s.o.Version, s.o.Self(), Protocol}) // a failure means that the caller is gone
}

// Probe returns nil only if that very session answered, with the key that its
// lease publishes and the same protocol, over a new connection and within the
// dial timeout.
func (c *Client) Probe(ctx context.Context, node core.NodeID, contact core.Contact) error {
	if err := c.probe(ctx, node, contact); err != nil {
		return fmt.Errorf("probe peer %s at %s: %w", node, contact.Addr, err)
	}
	return nil
}

func (c *Client) probe(ctx context.Context, node core.NodeID, contact core.Contact) error {
	if contact.Addr == "" || contact.Key == "" {
		return ErrNoContact
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.DialTimeout)
	defer cancel()
	// A pool of its own: what hangs on the shared one says nothing about the peer.
	p := newPool(poolKey{node, contact.Addr, contact.Key}, c.o, c.conns)
	defer p.retire()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+contact.Addr+ProbePath, nil)
	if err != nil {
		return err
	}
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return judgeProbe(resp, node)
}

func judgeProbe(resp *http.Response, node core.NodeID) error {
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	var got probe
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxProbe)).Decode(&got); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch {
	case got.Node != node:
		return fmt.Errorf("another session answered: %q", got.Node)
	case got.Protocol != Protocol:
		return fmt.Errorf("it speaks peer protocol %d, this node %d", got.Protocol, Protocol)
	}
	return nil
}
