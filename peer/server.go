package peer

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/core"
)

const (
	defaultHandshakeTimeout = 5 * time.Second
	defaultHeaderTimeout    = 10 * time.Second
	defaultIdleTimeout      = 2 * time.Minute
	defaultMaxHeaderBytes   = 256 << 10
	defaultMaxStrangers     = 1024
	defaultLookupTimeout    = 5 * time.Second
	defaultLookupsPerSecond = 50
	// A stranger's body is not worth waiting for.
	refusedBodyTimeout = time.Second
)

// ServerOptions configure a [Server]. Identity, Self, Lookup and Handler are
// required; the zero value of every other field stands for its default.
type ServerOptions struct {
	Identity *Identity
	// Self is this process's current node id, empty if it has none. It is
	// called for every request.
	Self func() core.NodeID
	// Lookup reads what a node's lease publishes; an error if there is none. A
	// stranger can cause a call, at most LookupsPerSecond of them; calls for
	// one node are shared, and what was found is never asked for again.
	Lookup func(context.Context, core.NodeID) (core.Contact, error)
	// Handler serves the requests of verified peers, without the headers that
	// peers exchange. Request and answer may stream at once (full duplex).
	//
	// A large body arrives only once it is asked for, which its first Read
	// does. A handler that may begin its answer before it reads must ask
	// first, by w.WriteHeader(http.StatusContinue); one that refuses the
	// request must not, so that the sender keeps the body.
	Handler func(w http.ResponseWriter, r *http.Request, from core.NodeID)
	// Version is the software's, for the probe.
	Version string
	// Log gets what an operator should see; nothing by default.
	Log *slog.Logger

	HandshakeTimeout time.Duration // 5s
	HeaderTimeout    time.Duration // for one request's headers: 10s
	IdleTimeout      time.Duration // between two requests: 2m
	MaxHeaderBytes   int           // 256 KiB
	MaxStrangers     int           // connections not verified yet: 1024
	LookupTimeout    time.Duration // with the wait for its turn: 5s
	LookupsPerSecond int           // beyond a burst of 64: 50
}

func (o ServerOptions) withDefaults() ServerOptions {
	o.HandshakeTimeout = positive(o.HandshakeTimeout, defaultHandshakeTimeout)
	o.HeaderTimeout = positive(o.HeaderTimeout, defaultHeaderTimeout)
	o.IdleTimeout = positive(o.IdleTimeout, defaultIdleTimeout)
	o.MaxHeaderBytes = positive(o.MaxHeaderBytes, defaultMaxHeaderBytes)
	o.MaxStrangers = positive(o.MaxStrangers, defaultMaxStrangers)
	o.LookupTimeout = positive(o.LookupTimeout, defaultLookupTimeout)
	o.LookupsPerSecond = positive(o.LookupsPerSecond, defaultLookupsPerSecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func positive[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// Server answers peers. It is safe for concurrent use.
type Server struct {
	o      ServerOptions
	http   *http.Server
	roster *roster
	end    context.CancelFunc // of the look-ups

	mu     sync.Mutex
	gates  []*gate
	closed bool
}

// NewServer returns a Server that serves nothing yet.
func NewServer(o ServerOptions) *Server {
	s := &Server{o: o.withDefaults()}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	s.roster = newRoster(ctx, s.o)
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: s.o.HeaderTimeout,
		IdleTimeout:       s.o.IdleTimeout,
		MaxHeaderBytes:    s.o.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelWarn),
		ConnContext:       withGuest,
		Protocols:         new(http.Protocols),
		// "OPTIONS *" is for the application.
		DisableGeneralOptionsHandler: true,
	}
	s.http.Protocols.SetHTTP1(true)
	return s
}

// Serve accepts connections on a TCP listener, which it owns from now on, until
// Close or Shutdown, when it returns http.ErrServerClosed.
func (s *Server) Serve(l net.Listener) error {
	g := newGate(l, s.o.Identity.serverTLS(), s.o.HandshakeTimeout, s.o.MaxStrangers)
	defer g.Close()
	if !s.keep(g) {
		return http.ErrServerClosed
	}
	return s.http.Serve(g)
}

func (s *Server) keep(g *gate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.gates = append(s.gates, g)
	}
	return !s.closed
}

// Learn tells the server what a node's lease was read to publish, so that the
// node's first request costs no look-up.
func (s *Server) Learn(node core.NodeID, contact core.Contact) { s.roster.learn(node, contact.Key) }

// Shutdown accepts nothing more and returns when every request has ended, on
// upgraded connections too, and peers have seen their connections end, or with
// the context's error; Close after that.
func (s *Server) Shutdown(ctx context.Context) error {
	gates := s.stop()
	for _, g := range gates {
		g.parting.Store(true)
	}
	if err := s.http.Shutdown(ctx); err != nil {
		return err
	}
	for _, g := range gates {
		if err := g.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close ends everything at once, upgraded connections too.
func (s *Server) Close() {
	gates := s.stop()
	s.http.Close() // its error is the listener's, which is of no use now
	for _, g := range gates {
		g.evict()
	}
	s.end()
}

func (s *Server) stop() []*gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.gates
}

type guestKey struct{}

// withGuest lets a request find its connection.
func withGuest(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, c.(*tls.Conn).NetConn())
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if isProbe(r) {
		s.answerProbe(w)
		return
	}
	from, why := s.admit(r)
	if why != "" {
		// Best effort: the refusal goes out in any case.
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBodyTimeout))
		refuse(w, r.Header.Get(headerNonce), why)
		return
	}
	s.run(w, r, from)
}

// run calls the handler, in full duplex: an answer may begin before the body has
// ended, and must not swallow the rest of it.
func (s *Server) run(w http.ResponseWriter, r *http.Request, from core.NodeID) {
	offered := r.Header["Expect"] != nil
	strip(r.Header)
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		panic(err) // HTTP/1 always can
	}
	if offered || r.Body == http.NoBody {
		// net/http itself ends the connection after an offered body that was
		// not read to its end.
		s.o.Handler(w, r, from)
		return
	}
	body := &watchedBody{ReadCloser: r.Body}
	r.Body = body
	s.o.Handler(w, r, from)
	r.Body = body.ReadCloser
	if !body.ended.Load() {
		finish(w, r)
	}
}

// finish lets the answer out and reads what is left of the body. In full duplex
// net/http would do the latter too late: a read that it begins in the background
// at the body's end then meets its own wait for the next request, and that breaks
// the connection under a client which has begun that request.
func finish(w http.ResponseWriter, r *http.Request) {
	if _, err := w.Write(nil); err != nil {
		return // hijacked
	}
	http.NewResponseController(w).Flush() // a failure shows in the body too
	r.Body.Close()
}

// watchedBody knows whether the body was read to its end.
type watchedBody struct {
	io.ReadCloser
	ended atomic.Bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended.Store(true)
	}
	return n, err
}

// admit says which session sends the request, or why it is refused. What is
// meant for another session is refused without any look-up.
func (s *Server) admit(r *http.Request) (core.NodeID, Refusal) {
	to, from := r.Header[headerTo], r.Header[headerFrom]
	if len(to) != 1 || core.NodeID(to[0]) != s.o.Self() || to[0] == "" {
		return "", AnotherSession
	}
	if len(from) != 1 || len(r.TLS.PeerCertificates) == 0 {
		return "", UnknownPeer
	}
	node := core.NodeID(from[0])
	c := r.Context().Value(guestKey{}).(*guest)
	if c.is(node) {
		return node, ""
	}
	if why := s.roster.check(r.Context(), node, keyOf(r.TLS.PeerCertificates[0])); why != "" {
		return "", why
	}
	c.verify(node)
	return node, ""
}

// strip removes what is between the peers.
func strip(h http.Header) {
	if h.Get(headerExpect) != "" {
		delete(h, "Expect")
	}
	for _, name := range [...]string{headerFrom, headerTo, headerNonce, headerExpect} {
		delete(h, name)
	}
}
