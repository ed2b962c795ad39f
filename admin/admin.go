package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Options are what a [Handler] is made of. Node is required.
type Options struct {
	// Node may be a [Drainer], a [Releaser], a [Lister] and a [Meter], too.
	Node Node
	// Token is the bearer token; empty if none is asked for.
	Token string
}

// Handler serves the admin address.
type Handler struct {
	node  Node
	guard guard
}

// New returns the handler.
func New(c Options) *Handler {
	return &Handler{node: c.Node, guard: newGuard(c.Token)}
}

// deadline bounds one question to the node: a node that does not answer must
// not look healthy.
const deadline = 5 * time.Second

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch r.URL.Path {
	case "/healthz":
		h.serve(w, r, methods{http.MethodGet: check(h.node.Health)})
		return
	case "/readyz":
		h.serve(w, r, methods{http.MethodGet: check(h.node.Ready)})
		return
	}
	if p, ok := h.guard.refuse(r); ok {
		if p.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="tenure"`)
		}
		writeProblem(w, p)
		return
	}
	h.route(w, r)
}

func (h *Handler) route(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	switch path {
	case "/v1/node":
		h.serve(w, r, methods{http.MethodGet: h.info})
	case "/v1/nodes":
		h.serve(w, r, methods{http.MethodGet: h.nodes})
	case "/metrics":
		h.serve(w, r, methods{http.MethodGet: h.metrics})
	case "/v1/cells":
		h.serve(w, r, methods{http.MethodGet: h.cells})
	case "/v1/drain":
		h.serve(w, r, methods{http.MethodPost: h.drain})
	default:
		h.routeCell(w, r, path)
	}
}

func (h *Handler) routeCell(w http.ResponseWriter, r *http.Request, path string) {
	escaped, ok := strings.CutPrefix(path, "/v1/cells/")
	escaped, action, more := strings.Cut(escaped, "/")
	if !ok || more && action != "release" {
		writeProblem(w, problem(http.StatusNotFound, "not-found", fmt.Sprintf("nothing is served at %q", r.URL.Path)))
		return
	}
	name, err := url.PathUnescape(escaped)
	if err == nil {
		err = core.CellName(name).Check()
	}
	if err != nil {
		writeProblem(w, problem(http.StatusBadRequest, core.CodeBadCellName, err.Error()))
		return
	}
	if more {
		h.serve(w, r, methods{http.MethodPost: h.release(name)})
		return
	}
	h.serve(w, r, methods{http.MethodGet: h.cell(name)})
}

// answer gives the body of a 200, or of a 202 if the work has only begun.
type answer func(ctx context.Context, r *http.Request) (any, error)

// begun is an answer to something that goes on after it.
type begun struct{ body any }

// methods are the answers of one path. GET serves HEAD, too.
type methods map[string]answer

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, m methods) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	a, ok := m[method]
	if !ok {
		w.Header().Set("Allow", m.allow())
		writeProblem(w, problem(http.StatusMethodNotAllowed, "method-not-allowed", "allowed: "+m.allow()))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()
	body, err := a(ctx, r)
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	switch b := body.(type) {
	case begun:
		writeJSON(w, http.StatusAccepted, "application/json", b.body)
	case exposition:
		writeBody(w, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", []byte(b))
	default:
		writeJSON(w, http.StatusOK, "application/json", body)
	}
}

func (m methods) allow() string {
	if _, ok := m[http.MethodGet]; ok {
		return "GET, HEAD"
	}
	return "POST"
}

func check(ask func(context.Context) error) answer {
	return func(ctx context.Context, _ *http.Request) (any, error) {
		if err := ask(ctx); err != nil {
			return nil, err
		}
		return map[string]string{"status": "ok"}, nil
	}
}

func (h *Handler) info(ctx context.Context, _ *http.Request) (any, error) {
	return h.node.Info(ctx)
}

// Bounds of a page of cells, or nodes.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

func (h *Handler) cells(ctx context.Context, r *http.Request) (any, error) {
	after, limit, err := pageOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	page, err := h.node.Cells(ctx, after, limit)
	if page.Cells == nil {
		page.Cells = []Cell{}
	}
	return page, err
}

func (h *Handler) nodes(ctx context.Context, r *http.Request) (any, error) {
	n, ok := h.node.(Lister)
	if !ok {
		return nil, errNotImplemented
	}
	after, limit, err := pageOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	page, err := n.Nodes(ctx, after, limit)
	if page.Nodes == nil {
		page.Nodes = []Lease{}
	}
	return page, err
}

func pageOf(q url.Values) (after string, limit int, err error) {
	limit = defaultLimit
	if s := q.Get("limit"); s != "" {
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > maxLimit {
			return "", 0, usage{fmt.Sprintf("limit=%q: must be a number from 1 to %d", s, maxLimit)}
		}
	}
	if after = q.Get("after"); after != "" {
		if err := core.CellName(after).Check(); err != nil {
			return "", 0, usage{"after: " + err.Error()}
		}
	}
	return after, limit, nil
}

func (h *Handler) cell(name string) answer {
	return func(ctx context.Context, _ *http.Request) (any, error) {
		c, err := h.node.Cell(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("cell %s: %w", name, err)
		}
		return c, nil
	}
}

func (h *Handler) release(name string) answer {
	return func(ctx context.Context, _ *http.Request) (any, error) {
		n, ok := h.node.(Releaser)
		if !ok {
			return nil, errNotImplemented
		}
		if err := n.Release(ctx, name); err != nil {
			return nil, fmt.Errorf("release %s: %w", name, err)
		}
		return begun{map[string]any{"cell": name, "releasing": true}}, nil
	}
}

func (h *Handler) drain(context.Context, *http.Request) (any, error) {
	n, ok := h.node.(Drainer)
	if !ok {
		return nil, errNotImplemented
	}
	n.Drain()
	return begun{map[string]bool{"draining": true}}, nil
}

var errNotImplemented = errors.New("this node cannot be told so")

// usage is an error of whoever asked.
type usage struct{ detail string }

func (u usage) Error() string { return u.detail }

func writeJSON(w http.ResponseWriter, status int, kind string, body any) {
	b, err := json.Marshal(body)
	if err != nil { // the bodies are ours, and plain
		panic(err)
	}
	writeBody(w, status, kind, append(b, '\n'))
}

func writeBody(w http.ResponseWriter, status int, kind string, b []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	w.Write(b) // the client may be gone
}

// problemOf says what an error means to whoever asked.
func problemOf(err error) problemDoc {
	var u usage
	var f Failed
	switch {
	case errors.As(err, &u):
		return problem(http.StatusBadRequest, "bad-request", u.detail)
	case errors.Is(err, errNotImplemented):
		return problem(http.StatusNotImplemented, "not-implemented", err.Error())
	case errors.Is(err, ErrBadName):
		return problem(http.StatusBadRequest, core.CodeBadCellName, err.Error())
	case errors.Is(err, ErrNotFound):
		return problem(http.StatusNotFound, "not-found", err.Error())
	case errors.As(err, &f):
		p := problem(statusOf(f.Code), f.Code, err.Error())
		p.retryAfter = time.Duration(f.RetryAfter)
		p.Node, p.Epoch = f.Node, f.Epoch
		return p
	default:
		return problem(http.StatusServiceUnavailable, "unavailable", err.Error())
	}
}
