package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/core"
)

// send writes a request as it is, and returns the answer.
func send(t *testing.T, url, raw string) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, raw)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// sendTarget asks for a target as it is.
func sendTarget(t *testing.T, url, target string) *http.Response {
	t.Helper()
	return send(t, url, "GET "+target+" HTTP/1.1\r\nHost: example.com\r\n\r\n")
}

// What follows the cell reaches the application byte by byte.
func TestTargetPassesUnmodified(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Tenure-Cell"), " ", r.Header.Get("X-Forwarded-Prefix"), " ", r.RequestURI)
	}
	for _, way := range []string{"app", "wrapped app", "forward, app"} {
		t.Run(way, func(t *testing.T) {
			f := ways[way](t, http.HandlerFunc(app))
			for target, want := range map[string]string{
				"/cells/x":                           "x /cells/x /",
				"/cells/x/":                          "x /cells/x /",
				"/cells/x?":                          "x /cells/x /?",
				"/cells/x?a=1;b=%zz&c=%":             "x /cells/x /?a=1;b=%zz&c=%",
				"/cells/x/a%2Fb/./../c":              "x /cells/x /a%2Fb/./../c",
				"/cells/x//a//b/":                    "x /cells/x //a//b/",
				"/cells/x///":                        "x /cells/x ///",
				"/cells/x/%7e%41":                    "x /cells/x /%7e%41",
				"/cells/room%3A42/y":                 "room:42 /cells/room%3A42 /y",
				"/cells/a+b/y":                       "a+b /cells/a+b /y",
				"/cells/a:b$c@d=e~f/y":               "a:b$c@d=e~f /cells/a:b$c@d=e~f /y",
				"/cells/x/%252e":                     "x /cells/x /%252e",
				"/cells/x/a;v=1/b,c":                 "x /cells/x /a;v=1/b,c",
				"http://example.com/cells/x/y?z":     "x /cells/x /y?z",
				"/cells/x/.tenurex":                  "x /cells/x /.tenurex",
				"/cells/x/a/.tenure":                 "x /cells/x /a/.tenure",
				"/cells/x/?q=/.tenure":               "x /cells/x /?q=/.tenure",
				"/cells/.../y":                       "... /cells/... /y",
				"/cells/" + strings.Repeat("x", 200): strings.Repeat("x", 200) + " /cells/" + strings.Repeat("x", 200) + " /",
			} {
				res := sendTarget(t, f.url, target)
				if got := readAll(t, res.Body); res.StatusCode != 200 || got != want {
					t.Errorf("%s\n got %d %s\nwant %s", target, res.StatusCode, got, want)
				}
			}
		})
	}
}

// net/url escapes these anew, which a handler in front of the application
// cannot prevent; the App alone does.
func TestOddBytesPassUnmodified(t *testing.T) {
	for _, way := range []string{"app", "forward, app"} {
		f := ways[way](t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) }))
		for _, rest := range []string{`/a|b"c<d>^` + "`{}\\", "/ü", "/a#b", "/[x]", "/%7C|"} {
			if got := readAll(t, sendTarget(t, f.url, "/cells/x"+rest).Body); got != rest {
				t.Errorf("%s: got %s, want %s", way, got, rest)
			}
		}
	}
}

func TestHostSeesTheDecodedPath(t *testing.T) {
	f := here(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.URL.Path, r.URL.RawPath, r.URL.RawQuery)
	}))
	if got := readAll(t, sendTarget(t, f.url, "/cells/x/a%2Fb//c?d;e").Body); got != "/a/b//c /a%2Fb//c d;e" {
		t.Error(got)
	}
}

func TestBadTargets(t *testing.T) {
	f := here(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("%s reached the application", r.RequestURI) }))
	for target, want := range map[string]core.Code{
		"/cells/":                             "bad-cell-name",
		"/cells//x":                           "bad-cell-name",
		"/cells/./x":                          "bad-cell-name",
		"/cells/../x":                         "bad-cell-name",
		"/cells/%2e%2e/x":                     "bad-cell-name",
		"/cells/%2E/x":                        "bad-cell-name",
		"/cells/a%2Fb/x":                      "bad-cell-name",
		"/cells/a%252Fb/x":                    "bad-cell-name",
		"/cells/a%00b":                        "bad-cell-name",
		"/cells/a%20b":                        "bad-cell-name",
		"/cells/%C3%BC":                       "bad-cell-name",
		"/cells/ü":                            "bad-cell-name",
		"/cells/a,b":                          "bad-cell-name",
		"/cells/a;b":                          "bad-cell-name",
		"/cells/a\\b":                         "bad-cell-name",
		"/cells/" + strings.Repeat("x", 201):  "bad-cell-name",
		"/":                                   "not-found",
		"/cells":                              "not-found",
		"/Cells/x":                            "not-found",
		"/%63ells/x":                          "not-found",
		"//cells/x":                           "not-found",
		"/x/../cells/x":                       "not-found",
		"*":                                   "not-found",
		"/.tenure":                            "not-found",
		"/.tenure/activate":                   "not-found",
		"/cells/x/.tenure":                    "not-found",
		"/cells/x/.tenure/activate":           "not-found",
		"/cells/x//.tenure/activate":          "not-found",
		"/cells/x/%2etenure/activate":         "not-found",
		"/cells/x/%2e%74enure":                "not-found",
		"/cells/x/./.tenure/":                 "not-found",
		"/cells/x/a/../.tenure/activate":      "not-found",
		"/cells/x/a/%2e%2e/.tenure/activate":  "not-found",
		"/cells/x/a%2F..%2F.tenure":           "not-found",
		"/cells/x/../../.tenure/activate":     "not-found",
		"/cells/x/../.tenure/activate":        "not-found",
		"/cells/x/..%2f..%2f.tenure%2Factive": "not-found",
	} {
		p := problem(t, sendTarget(t, f.url, target))
		if p.Code != want || p.Executed != "no" || p.Detail == "" {
			t.Errorf("%s: got %+v, want %s", target, p, want)
		}
	}
	if p := problem(t, send(t, f.url, "CONNECT /cells/x/ HTTP/1.1\r\nHost: x\r\n\r\n")); p.Code != "not-found" {
		t.Errorf("CONNECT: %+v", p)
	}
}

// net/http refuses what it cannot parse, before any handler.
func TestBadEscapesInThePath(t *testing.T) {
	f := here(t, http.NotFoundHandler())
	if res := sendTarget(t, f.url, "/cells/a%zz"); res.StatusCode != 400 {
		t.Error(res.StatusCode)
	}
}

// Somebody in front of the gateway may change the decoded path.
func TestChangedPathCounts(t *testing.T) {
	d := &decider{self: "a-1", plan: dispatchAt(1)}
	g := newGateway(t, d, localOf(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-Prefix"), r.URL.EscapedPath())
	})))
	s := serveHTTP(t, http.StripPrefix("/base", g))
	if got := readAll(t, sendTarget(t, s.URL, "/base/cells/x/a%2Fb").Body); got != "/cells/x/a%2Fb" {
		t.Error(got)
	}
}

func TestRoutes(t *testing.T) {
	for s, ok := range map[string]bool{
		"":                    true,
		DefaultRoute:          true,
		"path:/cells/{cell}":  true,
		"path:/{cell}/":       true,
		"path:/a/b/{cell}/":   true,
		"path:cells/{cell}/":  false,
		"path:/cells/":        false,
		"path:/x{cell}/":      false,
		"path:/{cell}/x":      false,
		"path:/a/../{cell}/":  false,
		"path://{cell}/":      false,
		"path:/a b/{cell}/":   false,
		"path:/a%20b/{cell}/": false,
		"header:Tenure-Cell":  false,
		"host:{cell}.x.com":   false,
		"nonsense":            false,
	} {
		_, err := New(Config{Decider: &decider{}, Peers: &peers{}, Local: localOf(nil), Route: s})
		if (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration was taken")
	}
}

func TestShortRoute(t *testing.T) {
	d := &decider{self: "a-1", plan: dispatchAt(1)}
	g, err := New(Config{Decider: d, Peers: newPeers(t), Route: "path:/{cell}/", Local: localOf(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Tenure-Cell"), r.URL.Path)
	}))})
	if err != nil {
		t.Fatal(err)
	}
	s := serveHTTP(t, g)
	if got := readAll(t, sendTarget(t, s.URL, "/room/a").Body); got != "room/a" {
		t.Error(got)
	}
	if p := problem(t, sendTarget(t, s.URL, "/.tenure/activate")); p.Code != "not-found" {
		t.Errorf("%+v", p)
	}
}
