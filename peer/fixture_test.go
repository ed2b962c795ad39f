package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/core"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// fleet is the bucket of a test: the leases that can be looked up.
type fleet struct {
	mu      sync.Mutex
	leases  map[core.NodeID]core.Contact
	lookups int
}

func newFleet() *fleet { return &fleet{leases: make(map[core.NodeID]core.Contact)} }

func (f *fleet) publish(node core.NodeID, c core.Contact) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leases[node] = c
}

func (f *fleet) lookup(_ context.Context, node core.NodeID) (core.Contact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookups++
	c, ok := f.leases[node]
	if !ok {
		return core.Contact{}, errors.New("no such lease")
	}
	return c, nil
}

func (f *fleet) lookedUp() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lookups
}

// member is a process with both sides.
type member struct {
	identity *Identity
	contact  core.Contact
	server   *Server
	client   *Client

	mu sync.Mutex
	id core.NodeID
}

func (m *member) self() core.NodeID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

func (m *member) rename(id core.NodeID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id = id
}

type handler func(w http.ResponseWriter, r *http.Request, from core.NodeID)

// join starts a member and publishes its lease.
func (f *fleet) join(t testing.TB, id core.NodeID, h handler, adjust ...func(*ServerOptions, *ClientOptions)) *member {
	t.Helper()
	m := &member{identity: newIdentity(t), id: id}
	so := ServerOptions{Identity: m.identity, Self: m.self, Lookup: f.lookup, Handler: h, Version: "test"}
	co := ClientOptions{Identity: m.identity, Self: m.self}
	for _, a := range adjust {
		a(&so, &co)
	}
	m.server, m.client = NewServer(so), NewClient(co)
	l := listen(t)
	served := make(chan error, 1)
	go func() { served <- m.server.Serve(l) }()
	t.Cleanup(func() {
		m.client.Close()
		m.server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve of %s: %v", id, err)
		}
	})
	m.contact = core.Contact{Addr: l.Addr().String(), Key: m.identity.Key(), Protocol: Protocol}
	f.publish(id, m.contact)
	return m
}

// to is the way from m to another member.
func (m *member) to(other *member) http.RoundTripper {
	return m.client.Transport(other.self(), other.contact)
}

func newIdentity(t testing.TB) *Identity {
	t.Helper()
	i, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func request(t testing.TB, method string, body io.Reader) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://cell.example/path?q=1", body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send expects an answer and returns its status and body.
func send(t testing.TB, via http.RoundTripper, r *http.Request) (int, string) {
	t.Helper()
	resp, err := via.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// fails expects an error of the kind.
func fails(t testing.TB, via http.RoundTripper, r *http.Request, notConnected bool) error {
	t.Helper()
	resp, err := via.RoundTrip(r)
	if err == nil {
		resp.Body.Close()
		t.Fatalf("answered %s, want an error", resp.Status)
	}
	if NotConnected(err) != notConnected {
		t.Fatalf("NotConnected is %v for: %v", !notConnected, err)
	}
	return err
}

func refusedAs(t testing.TB, err error, want Refusal) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Refusal != want {
		t.Fatalf("got %v, want the refusal %s", err, want)
	}
}

func hello(w http.ResponseWriter, _ *http.Request, from core.NodeID) {
	io.WriteString(w, "hello "+string(from))
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

func within[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

// strangerTLS is a client of its own making; nil for no client key.
func strangerTLS(i *Identity) *tls.Config {
	c := &tls.Config{InsecureSkipVerify: true}
	if i != nil {
		c.Certificates = []tls.Certificate{i.cert}
	}
	return c
}
