package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/tenure-go/tenure/core"
)

// DefaultRoute names the cell in the path.
const DefaultRoute = "path:/cells/{cell}/"

// route finds a request's cell: what follows prefix in the escaped path, up to
// the next slash.
type route struct{ prefix string }

// target is where a request goes.
type target struct {
	cell core.CellName
	// prefix is the part of the escaped path that named the cell, as the
	// client wrote it; rest is what follows it, beginning with a slash.
	prefix, rest string
	// forwarded: a peer sent it, and has done what the first hop does.
	forwarded bool
}

func parseRoute(s string) (route, error) {
	kind, pattern, _ := strings.Cut(s, ":")
	if kind != "path" {
		return route{}, fmt.Errorf("route %q: not supported; use path:/cells/{cell}/", s)
	}
	prefix, after, found := strings.Cut(pattern, "{cell}")
	switch {
	case !found || after != "" && after != "/":
		return route{}, fmt.Errorf("route %q: must end with /{cell}/", s)
	case !strings.HasPrefix(prefix, "/") || !strings.HasSuffix(prefix, "/"):
		return route{}, fmt.Errorf("route %q: {cell} must be a whole segment of an absolute path", s)
	case (&url.URL{Path: prefix}).EscapedPath() != prefix || prefix != "/" && prefix != path.Clean(prefix)+"/" || prefix == "//":
		return route{}, fmt.Errorf("route %q: the path before {cell} must be plain", s)
	}
	return route{prefix}, nil
}

// target splits the request's target. The failure has no code if all is well.
func (rt route) target(r *http.Request) (target, core.Failure) {
	raw := rawPath(r.URL)
	if !strings.HasPrefix(raw, rt.prefix) || r.Method == http.MethodConnect || reserved(r.URL.Path) {
		return target{}, notFound(r.URL.Path)
	}
	escaped, rest := raw[len(rt.prefix):], "/"
	if i := strings.IndexByte(escaped, '/'); i >= 0 {
		escaped, rest = escaped[:i], escaped[i:]
	}
	// Decoded exactly once, then judged, never repaired.
	name, err := url.PathUnescape(escaped)
	if err == nil {
		err = core.CellName(name).Check()
	}
	if err != nil {
		return target{}, core.Failure{Code: core.CodeBadCellName, Detail: err.Error()}
	}
	t := target{cell: core.CellName(name), prefix: raw[:len(rt.prefix)+len(escaped)], rest: rest}
	return t, t.check()
}

// peerTarget is the target of a request that a peer forwarded: the cell is in a
// header, and the prefix was stripped.
func peerTarget(r *http.Request) (target, core.Failure) {
	t := target{
		cell:      core.CellName(r.Header.Get(peerCell)),
		prefix:    r.Header.Get(peerPrefix),
		rest:      rawPath(r.URL),
		forwarded: true,
	}
	if err := t.cell.Check(); err != nil {
		return target{}, core.Failure{Code: core.CodeBadCellName, Detail: err.Error()}
	}
	return t, t.check()
}

// check refuses what no client may reach: the hooks of the application.
func (t target) check() core.Failure {
	decoded, err := url.PathUnescape(t.rest)
	if err != nil || !strings.HasPrefix(decoded, "/") || reserved(decoded) {
		return notFound(t.rest)
	}
	return core.Failure{}
}

// url sets what the application is asked for.
func (t target) url(out, in *url.URL) {
	*out = *in
	out.Opaque, out.RawPath = "", t.rest
	out.Path, _ = url.PathUnescape(t.rest) // check has seen that it works
}

// opaque makes the path of an outgoing request be sent as it was received: net/url
// escapes anew what it would not have escaped. What begins with two slashes
// cannot be told to it so.
func (t target) opaque(u *url.URL) {
	if !strings.HasPrefix(t.rest, "//") {
		u.Opaque = t.rest
	}
}

// rawPath is the escaped path as the client wrote it, unless somebody in front
// of the gateway has changed the decoded one since.
func rawPath(u *url.URL) string {
	if u.RawPath != "" {
		if p, err := url.PathUnescape(u.RawPath); err == nil && p == u.Path {
			return u.RawPath
		}
	}
	return u.EscapedPath()
}

// reserved reports whether a decoded path is /.tenure or below it.
func reserved(decoded string) bool {
	if !strings.Contains(decoded, ".tenure") {
		return false
	}
	c := path.Clean("/" + decoded)
	return c == "/.tenure" || strings.HasPrefix(c, "/.tenure/")
}

func notFound(path string) core.Failure {
	return core.Failure{Code: codeNotFound, Detail: fmt.Sprintf("nothing is served at %q", path)}
}
