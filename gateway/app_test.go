package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/core"
)

func TestNewApp(t *testing.T) {
	for target, ok := range map[string]bool{
		"http://127.0.0.1:3000": true, "http://app:3000/": true, "unix:/tmp/x.sock": true, "http://[::1]:80": true,
		"": false, "app:3000": false, "https://app:3000": false, "http://": false, "http://:": false,
		"http://app/base": false, "http://app?x": false, "http://u@app": false, "unix:": false,
	} {
		if _, err := NewApp(target); (err == nil) != ok {
			t.Errorf("%q: %v", target, err)
		}
	}
}

func TestUnixApp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, r.URL.Path)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	f := here(t, newApp(t, "unix:"+path))
	req := request(t, "GET", f.url+"/cells/x/y", nil)
	req.Host = "example.com"
	if body := readAll(t, do(t, req).Body); body != "example.com/y" {
		t.Error(body)
	}
}

func TestAppUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	for name, way := range map[string]func(*testing.T, http.Handler) *fleet{"here": here, "elsewhere": elsewhere} {
		f := way(t, newApp(t, "http://"+addr))
		if name == "elsewhere" {
			f.node.plan = thenFail(f.node.plan)
		}
		p := problem(t, do(t, request(t, "POST", f.url+"/cells/x/", strings.NewReader("abc"))))
		if p.Code != core.CodeAppUnreachable || p.Executed != "no" || p.Node != f.owner.self || p.Epoch != ownerEpoch {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// thenFail fails with what the peer said, as the core does.
func thenFail(plan func(*call, int) core.Effect) func(*call, int) core.Effect {
	return func(c *call, n int) core.Effect {
		if n == 0 {
			return plan(c, n)
		}
		if how := c.failed[n-1]; how != core.PeerRefused {
			return core.Fail{Failure: core.Failure{Code: core.CodeOwnerLost, Ran: how == core.ForwardBroken}}
		}
		return core.Fail{Failure: c.refusals[n-1]}
	}
}

// rawApp is an application that speaks TCP: each connection is handed to serve.
func rawApp(t *testing.T, serve func(n int, c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(n, c)
		}
	}()
	return "http://" + l.Addr().String()
}

// An application that closes a kept connection after it has read a request
// must not get the request again.
func TestNoReplayOnceWritten(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "PUT"} {
		seen := make(chan string, 10)
		f := here(t, newApp(t, rawApp(t, func(_ int, c net.Conn) {
			defer c.Close()
			br := bufio.NewReader(c)
			for i := range 2 {
				r, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				io.Copy(io.Discard, r.Body)
				seen <- r.Method
				if i == 0 {
					io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
				}
			}
		})))
		get(t, f.url+"/cells/x/")
		var body io.Reader
		if method == "PUT" {
			body = strings.NewReader("abc")
		}
		req := request(t, method, f.url+"/cells/x/", body)
		req.Header.Set("Idempotency-Key", "k")
		res := do(t, req)
		if res.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: %d", method, res.StatusCode)
		}
		if method != "HEAD" {
			if p := problem(t, res); p.Code != core.CodeAppBroken || p.Executed != "unknown" {
				t.Errorf("%s: %+v", method, p)
			}
		}
		if len(seen) != 2 {
			t.Errorf("%s: the application saw %d requests", method, len(seen))
		}
	}
}

func TestAppBroken(t *testing.T) {
	for name, answer := range map[string]string{
		"closed":  "",
		"garbage": "what?\r\n\r\n",
		"partial": "HTTP/1.1 200 OK\r\nContent-Le",
	} {
		f := here(t, newApp(t, rawApp(t, func(_ int, c net.Conn) {
			defer c.Close()
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, answer)
		})))
		if p := problem(t, get(t, f.url+"/cells/x/")); p.Code != core.CodeAppBroken || p.Executed != "unknown" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestTruncatedAnswerIsSeenByTheClient(t *testing.T) {
	f := here(t, newApp(t, rawApp(t, func(_ int, c net.Conn) {
		defer c.Close()
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
	})))
	// The connection breaks, before the header goes out or after it.
	res, err := http.Get(f.url + "/cells/x/")
	if err != nil {
		return
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("ended well with %q", b)
	}
}

func TestPanics(t *testing.T) {
	f := here(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/late":
			io.WriteString(w, strings.Repeat("x", 1<<16))
			panic("late")
		case "/abort":
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-App", "1")
		panic("early")
	}))
	res := get(t, f.url+"/cells/x/")
	if p := problem(t, res); p.Code != core.CodeAppBroken || p.Executed != "unknown" || res.Header.Get("X-App") != "" {
		t.Errorf("%+v", p)
	}
	if _, err := io.ReadAll(get(t, f.url+"/cells/x/late").Body); err == nil {
		t.Error("a late panic went unnoticed")
	}
	if res, err := http.DefaultTransport.RoundTrip(request(t, "POST", f.url+"/cells/x/abort", nil)); err == nil {
		t.Errorf("aborted, got %d", res.StatusCode)
	}
	<-f.node.last().done
}

func TestNothingServesTheCell(t *testing.T) {
	f := here(t, nil)
	if p := problem(t, get(t, f.url+"/cells/x/")); p.Code != core.CodeAppBroken || p.Executed != "no" {
		t.Errorf("%+v", p)
	}
}

// The core fails a request while its handler ignores that: the client hears of
// it at once.
func TestFailureDoesNotWaitForTheHandler(t *testing.T) {
	for _, body := range []bool{false, true} {
		running, release := make(chan struct{}), make(chan struct{})
		f := here(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(running)
			<-release
			if _, err := io.WriteString(w, "too late"); err == nil {
				t.Error("written")
			}
		}))
		var in io.Reader
		if body { // which never ends
			r, w := io.Pipe()
			defer w.Close()
			in = r
		}
		go func() {
			<-running
			f.node.last().fail(core.Failure{Code: core.CodeTimeout, Ran: true})
		}()
		res := do(t, request(t, "POST", f.url+"/cells/x/", in))
		if p := problem(t, res); p.Code != core.CodeTimeout || p.Executed != "unknown" || p.Status != 504 {
			t.Errorf("%+v", p)
		}
		close(release)
		<-f.node.last().done
	}
}

// A client that stalls in the middle of its body must not keep a failed request.
func TestFailureFreesAStalledUpload(t *testing.T) {
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	}, func(t *testing.T, f *fleet) {
		in, out := io.Pipe()
		defer out.Close()
		began, plan := make(chan *call, 1), f.node.plan
		f.node.plan = func(c *call, n int) core.Effect {
			began <- c
			return plan(c, n)
		}
		go func() {
			io.WriteString(out, "part")
			(<-began).fail(core.Failure{Code: core.CodeTimeout, Ran: true})
		}()
		if p := problem(t, do(t, request(t, "POST", f.url+"/cells/x/", in))); p.Code != core.CodeTimeout {
			t.Errorf("%+v", p)
		}
		f.node.settle()
		f.owner.settle()
	})
}

func TestClientLeaves(t *testing.T) {
	running := make(chan struct{})
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		running <- struct{}{}
		<-r.Context().Done()
	}, func(t *testing.T, f *fleet) {
		c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "GET /cells/x/ HTTP/1.1\r\nHost: x\r\n\r\n")
		<-running
		c.Close()
		<-f.node.last().done
		<-f.owner.last().done
	})
}

func TestBrokenUploadIsTheClientsFault(t *testing.T) {
	f := here(t, newApp(t, serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	})).URL))
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST /cells/x/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := problem(t, res); p.Code != codeBadRequest {
		t.Errorf("%+v", p)
	}
}

// An App can be used without a Gateway.
func TestAppAlone(t *testing.T) {
	backend := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	s := serveHTTP(t, newApp(t, backend.URL))
	if body := readAll(t, do(t, request(t, "POST", s.URL+"/x", strings.NewReader("abc"))).Body); body != "abc" {
		t.Error(body)
	}
	backend.Close()
	if p := problem(t, get(t, s.URL)); p.Code != core.CodeAppUnreachable && p.Code != core.CodeAppBroken {
		t.Errorf("%+v", p)
	}
}

func TestWireErrorUnwraps(t *testing.T) {
	if e := wireOf(fmt.Errorf("x: %w", &wireError{err: io.EOF})); e.wrote || !errors.Is(e, io.EOF) {
		t.Errorf("%+v", e)
	}
	if e := wireOf(io.EOF); !e.wrote || !e.connected {
		t.Errorf("%+v", e)
	}
}
