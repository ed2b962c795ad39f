package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/tenure-go/tenure/core"
)

func do(t *testing.T, req *http.Request) *http.Response {
	t.Helper()
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	return do(t, request(t, "GET", url, nil))
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOwnerIdentifiesItself(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Tenure-Epoch", "99")
		w.Header().Set("Tenure-Peer-Refused", "not-mine")
		w.Header().Set("X-App", "yes")
		fmt.Fprintf(w, "%q %q %q", r.Header["Tenure-Cell"], r.Header["Tenure-Epoch"], r.Header["Tenure-Node"])
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		req := request(t, "GET", f.url+"/cells/room:42/x", nil)
		req.Header.Set("tenure-cell", "other")
		req.Header.Set("Tenure-Epoch", "1")
		req.Header.Set("Tenure-Hook", "1")
		req.Header.Set("Connection", "Tenure-Epoch, Tenure-Peer-Cell, Tenure-Node")
		res := do(t, req)
		want := fmt.Sprintf(`["room:42"] ["7"] [%q]`, f.owner.self)
		if body := readAll(t, res.Body); res.StatusCode != 200 || body != want {
			t.Errorf("got %d %s, want %s", res.StatusCode, body, want)
		}
		if v := res.Header.Values("Tenure-Epoch"); len(v) != 1 || v[0] != "7" {
			t.Errorf("Tenure-Epoch: %q", v)
		}
		if v := res.Header.Values("Tenure-Node"); len(v) != 1 || v[0] != string(f.owner.self) {
			t.Errorf("Tenure-Node: %q", v)
		}
		if res.Header.Get("Tenure-Peer-Refused") != "" || res.Header.Get("X-App") != "yes" {
			t.Errorf("header: %v", res.Header)
		}
		<-f.node.last().done
		<-f.owner.last().done
	})
}

func TestForwardedHeaders(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		fmt.Fprint(w, h["X-Forwarded-For"], h["X-Forwarded-Host"], h["X-Forwarded-Proto"], h["X-Forwarded-Prefix"], h["Forwarded"], r.Host, h["Tenure-Hook"], h["User-Agent"], h["Expect"])
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		req := request(t, "GET", f.url+"/cells/a%3Ab/x", nil)
		req.Host = "example.com"
		req.Header.Set("X-Forwarded-For", "192.0.2.1")
		req.Header.Set("X-Forwarded-Host", "evil")
		req.Header.Set("X-Forwarded-Prefix", "/evil")
		req.Header.Set("Forwarded", "for=evil")
		req.Header.Set("User-Agent", "")
		want := "[192.0.2.1, 127.0.0.1] [example.com] [http] [/cells/a%3Ab] []example.com[] [] []"
		if body := readAll(t, do(t, req).Body); body != want {
			t.Errorf("got  %s\nwant %s", body, want)
		}
	})
}

func TestStreamsBothWays(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		rc.Flush()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprint(w, "echo ", line)
			if err := rc.Flush(); err != nil {
				return
			}
		}
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		body, pipe := io.Pipe()
		res := do(t, request(t, "POST", f.url+"/cells/x/", body))
		out := bufio.NewReader(res.Body)
		for i := range 3 {
			fmt.Fprintf(pipe, "%d\n", i)
			line, err := out.ReadString('\n')
			if want := fmt.Sprintf("echo %d\n", i); err != nil || line != want {
				t.Fatalf("got %q, %v; want %q", line, err, want)
			}
		}
		pipe.Close()
		if rest := readAll(t, out); rest != "" {
			t.Errorf("rest: %q", rest)
		}
	})
}

func TestServerSentEvents(t *testing.T) {
	next := make(chan string)
	app := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case s := <-next:
				fmt.Fprintf(w, "data: %s\n\n", s)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		ctx, leave := context.WithCancel(t.Context())
		go func() { next <- "a" }()
		res := do(t, request(t, "GET", f.url+"/cells/x/", nil).WithContext(ctx))
		out := bufio.NewReader(res.Body)
		for _, s := range []string{"a", "b"} {
			if line, err := out.ReadString('\n'); err != nil || line != "data: "+s+"\n" {
				t.Fatalf("got %q, %v", line, err)
			}
			out.ReadString('\n')
			if s == "a" {
				next <- "b"
			}
		}
		leave()
		<-f.owner.last().done // the application noticed
	})
}

func TestTrailers(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Trailer", "X-Sum, Tenure-Epoch")
		io.Copy(w, r.Body)
		h.Set("X-Sum", r.Trailer.Get("X-In")+"!")
		h.Set("Tenure-Epoch", "99")
		h.Set(http.TrailerPrefix+"X-Late", fmt.Sprint(r.Trailer["Tenure-Cell"]))
		h.Set(http.TrailerPrefix+"Tenure-Node", "evil")
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		req := request(t, "POST", f.url+"/cells/x/", io.MultiReader(strings.NewReader("hello")))
		req.Trailer = http.Header{"X-In": nil, "Tenure-Cell": nil}
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader("hello"), atEOF(func() {
			req.Trailer["X-In"], req.Trailer["Tenure-Cell"] = []string{"5"}, []string{"evil"}
		})))
		res := do(t, req)
		if body := readAll(t, res.Body); body != "hello" {
			t.Errorf("body %q", body)
		}
		if got := res.Trailer; got.Get("X-Sum") != "5!" || got.Get("X-Late") != "[]" || len(got) != 2 {
			t.Errorf("trailer %v", got)
		}
		if v := res.Header.Values("Tenure-Epoch"); len(v) != 1 || v[0] != "7" {
			t.Errorf("Tenure-Epoch: %q", v)
		}
	})
}

type atEOF func()

func (f atEOF) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

func TestWebSocket(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			kind, msg, err := c.Read(r.Context())
			if err != nil {
				return
			}
			c.Write(r.Context(), kind, append([]byte("echo "), msg...))
		}
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		c, res, err := websocket.Dial(t.Context(), f.url+"/cells/x/ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := res.Header.Values("Tenure-Epoch"); len(v) != 1 || v[0] != "7" {
			t.Errorf("Tenure-Epoch: %q", v)
		}
		for range 3 {
			if err := c.Write(t.Context(), websocket.MessageText, []byte("hi")); err != nil {
				t.Fatal(err)
			}
			if _, msg, err := c.Read(t.Context()); err != nil || string(msg) != "echo hi" {
				t.Fatalf("got %q, %v", msg, err)
			}
		}
		// The core takes the cell away.
		f.owner.last().cancel()
		if _, _, err := c.Read(t.Context()); err == nil {
			t.Error("the connection outlived the request")
		}
		<-f.owner.last().done
		<-f.node.last().done
	})
}

// A handler may hijack and return; the request lasts until the connection is
// closed.
func TestHijackedRequestOutlivesItsHandler(t *testing.T) {
	closing := make(chan struct{})
	f := here(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		rw.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")
		rw.Flush()
		go func() {
			<-closing
			conn.Close()
		}()
	}))
	res := get(t, f.url+"/cells/x/")
	io.ReadFull(res.Body, make([]byte, 5))
	select {
	case <-f.node.last().done:
		t.Error("done while the connection is open")
	default:
	}
	close(closing)
	<-f.node.last().done
}

func TestInformational(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style>")
		w.Header().Set("Tenure-Node", "evil")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Final", "1")
		w.WriteHeader(http.StatusTeapot)
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		var hints []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, h["Link"], h["Tenure-Node"]))
				return nil
			},
		})
		res := do(t, request(t, "GET", f.url+"/cells/x/", nil).WithContext(ctx))
		if len(hints) != 1 || hints[0] != "103 [</style>] []" {
			t.Errorf("hints %q", hints)
		}
		if res.StatusCode != http.StatusTeapot || res.Header.Get("X-Final") != "1" {
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
		if n := f.owner.last().readied; n != 1 {
			t.Errorf("Ready was called %d times", n)
		}
	})
}

func TestAnswersWithoutBody(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(http.StatusNotModified)
		case "/421": // the application's own, not a peer's
			w.WriteHeader(http.StatusMisdirectedRequest)
		case "/nothing":
		default:
			w.Header().Set("Content-Length", "12345")
		}
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		for path, want := range map[string]int{"/204": 204, "/304": 304, "/421": 421, "/nothing": 200} {
			if res := get(t, f.url+"/cells/x"+path); res.StatusCode != want || readAll(t, res.Body) != "" {
				t.Errorf("%s: %d", path, res.StatusCode)
			}
		}
		res := do(t, request(t, "HEAD", f.url+"/cells/x/", nil))
		if res.StatusCode != 200 || res.ContentLength != 12345 {
			t.Errorf("HEAD: %d, length %d", res.StatusCode, res.ContentLength)
		}
	})
}

func TestRequestShape(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Method, " ", r.ContentLength, " ", r.TransferEncoding, " ", len(b), " ", r.Header["Idempotency-Key"])
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		for _, c := range []struct {
			method string
			body   io.Reader
			want   string
		}{
			{"GET", nil, "GET 0 [] 0 [k]"},
			{"OPTIONS", nil, "OPTIONS 0 [] 0 [k]"},
			{"POST", nil, "POST 0 [] 0 [k]"},
			{"POST", strings.NewReader("abc"), "POST 3 [] 3 [k]"},
			{"GET", strings.NewReader("abc"), "GET 3 [] 3 [k]"},
			{"PUT", strings.NewReader(strings.Repeat("x", 1<<20)), "PUT 1048576 [] 1048576 [k]"},
			{"PUT", io.MultiReader(strings.NewReader("abc")), "PUT -1 [chunked] 3 [k]"},
		} {
			req := request(t, c.method, f.url+"/cells/x/", c.body)
			req.Header.Set("Idempotency-Key", "k")
			if got := readAll(t, do(t, req).Body); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		}
	})
}

func TestAbortIsSeenByTheClient(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		app := func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			if stubborn { // pretends that all is well
				io.WriteString(w, "more")
			}
		}
		everyWay(t, app, func(t *testing.T, f *fleet) {
			res := get(t, f.url+"/cells/x/")
			io.ReadFull(res.Body, make([]byte, 4))
			f.owner.last().cancel()
			if b, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("the answer ended well: %q", b)
			}
			<-f.owner.last().done
		})
	}
}

// A client that does not read must not keep an aborted request.
func TestAbortOfAStalledClient(t *testing.T) {
	full := make(chan struct{})
	f := here(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 1<<20)
		for i := 0; ; i++ {
			if i == 8 {
				close(full)
			}
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	}))
	res := get(t, f.url+"/cells/x/")
	io.CopyN(io.Discard, res.Body, 9<<20)
	<-full
	f.node.last().cancel()
	<-f.node.last().done
}

func TestGateHoldsTheAnswer(t *testing.T) {
	var written = make(chan struct{}, 1)
	app := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Secret", "1")
		_, err := io.WriteString(w, "secret")
		if err == nil {
			t.Error("a refused answer was written")
		}
		written <- struct{}{}
	}
	f := here(t, http.HandlerFunc(app))
	f.node.plan = func(c *call, _ int) core.Effect {
		c.ready = func() { c.fail(core.Failure{Code: core.CodeAuthorityLost, Ran: true}) }
		return core.Dispatch{Cell: c.cell, Epoch: 3}
	}
	res := get(t, f.url+"/cells/x/")
	p := problem(t, res)
	if p.Code != core.CodeAuthorityLost || p.Executed != "unknown" || p.Epoch != 3 || res.Header.Get("X-Secret") != "" {
		t.Errorf("%+v %v", p, res.Header)
	}
	<-written
}

func TestNoWayAroundTheGate(t *testing.T) {
	f := here(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
			t.Error("Unwrap")
		}
		rc := http.NewResponseController(w)
		if err := rc.Flush(); !errors.Is(err, errClosed) {
			t.Errorf("Flush: %v", err)
		}
		if _, _, err := rc.Hijack(); !errors.Is(err, errClosed) {
			t.Errorf("Hijack: %v", err)
		}
	}))
	f.node.plan = func(c *call, _ int) core.Effect {
		c.ready = func() { c.fail(core.Failure{Code: core.CodeTimeout, Ran: true}) }
		return core.Dispatch{Cell: c.cell, Epoch: 3}
	}
	if p := problem(t, get(t, f.url+"/cells/x/")); p.Code != core.CodeTimeout {
		t.Errorf("%+v", p)
	}
}

// A body that nobody reads must not cost the client its connection.
func TestConnectionSurvivesAnUnreadBody(t *testing.T) {
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Method)
	}, func(t *testing.T, f *fleet) {
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		var conns int
		for i := range 20 {
			req := request(t, "POST", f.url+"/cells/x/", bodyOf(4096*i, i%2 == 0))
			req = req.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(info httptrace.GotConnInfo) {
					if !info.Reused {
						conns++
					}
				},
			}))
			res, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, res.Body); got != "POST" {
				t.Errorf("got %q", got)
			}
			res.Body.Close()
		}
		if conns > 2 {
			t.Errorf("%d connections", conns)
		}
	})
}
