package peer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/core"
)

// pair is two members of one fleet; the second one serves.
func pair(t testing.TB, h handler, adjust ...func(*ServerOptions, *ClientOptions)) (a, b *member) {
	f := newFleet()
	return f.join(t, "a-1", hello), f.join(t, "b-1", h, adjust...)
}

func TestPassesUnchanged(t *testing.T) {
	seen := make(chan *http.Request, 1)
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, from core.NodeID) {
		seen <- r
		w.Header().Set("Set-Cookie", "x=y")
		w.Header().Set(headerRefused, "forged "+string(AnotherSession))
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s", from)
	})
	r := request(t, "GET", nil)
	r.URL.RawQuery = "a=%20&b;c"
	r.Header.Set("Idempotency-Key", "k")
	r.Header.Set(headerFrom, "forged-1")
	r.Header.Set(headerExpect, "forged")
	before := r.Header.Clone()
	resp, err := a.to(b).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusTeapot || string(body) != "a-1" || resp.Header.Get("Set-Cookie") != "x=y" || resp.Request != r {
		t.Errorf("answer %s %q %v", resp.Status, body, resp.Header)
	}
	if fmt.Sprint(r.Header) != fmt.Sprint(before) {
		t.Errorf("the caller's headers became %v", r.Header)
	}
	got := <-seen
	if got.Host != "cell.example" || got.RequestURI != "/path?a=%20&b;c" || len(got.Header) != 1 || got.Header.Get("Idempotency-Key") != "k" {
		t.Errorf("the peer's handler saw %s %s %v", got.Host, got.RequestURI, got.Header)
	}
}

func TestServerWideOptionsReachesTheHandler(t *testing.T) {
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, _ core.NodeID) { io.WriteString(w, r.RequestURI) })
	r := request(t, "OPTIONS", nil)
	r.URL.Path, r.URL.RawQuery = "*", ""
	if _, got := send(t, a.to(b), r); got != "*" {
		t.Errorf("got %q", got)
	}
}

func TestThePathOfTheProbeIsTheApplicationsToo(t *testing.T) {
	a, b := pair(t, hello)
	r := request(t, "GET", nil)
	r.URL.Path = ProbePath
	if _, got := send(t, a.to(b), r); got != "hello a-1" {
		t.Errorf("got %q", got)
	}
}

// Each line comes back before the next one is sent.
func TestStreamsBothWays(t *testing.T) {
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, _ core.NodeID) {
		w.WriteHeader(http.StatusContinue)
		http.NewResponseController(w).Flush()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			fmt.Fprintln(w, "echo", lines.Text())
			http.NewResponseController(w).Flush()
		}
	})
	body, upload := io.Pipe()
	resp, err := a.to(b).RoundTrip(request(t, "POST", body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for i := range 20 {
		fmt.Fprintln(upload, i)
		if got, err := lines.ReadString('\n'); got != fmt.Sprintln("echo", i) {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	upload.Close()
	if _, err := lines.ReadString('\n'); err != io.EOF {
		t.Error(err)
	}
}

func TestTrailersBothWays(t *testing.T) {
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, _ core.NodeID) {
		w.Header().Set("Trailer", "Sum")
		io.Copy(w, r.Body)
		w.Header().Set("Sum", r.Trailer.Get("Sum"))
	})
	r := request(t, "POST", nil)
	r.Trailer = http.Header{"Sum": nil}
	r.ContentLength = -1
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("content"), readerFunc(func([]byte) (int, error) {
		r.Trailer.Set("Sum", "42")
		return 0, io.EOF
	})))
	resp, err := a.to(b).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if string(got) != "content" || err != nil || resp.Trailer.Get("Sum") != "42" {
		t.Errorf("got %q, %v, trailers %v", got, err, resp.Trailer)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestEventsArriveAsTheyAreFlushed(t *testing.T) {
	next := make(chan struct{})
	gone := make(chan struct{})
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, _ core.NodeID) {
		defer close(gone)
		w.Header().Set("Content-Type", "text/event-stream")
		for range next {
			io.WriteString(w, "data: x\n\n")
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done() // the caller's going away ends the request
	})
	go func() { next <- struct{}{} }()
	resp, err := a.to(b).RoundTrip(request(t, "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	events := bufio.NewReader(resp.Body)
	for i := range 5 {
		if i > 0 {
			next <- struct{}{}
		}
		if line, err := events.ReadString('\n'); line != "data: x\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		events.ReadString('\n')
	}
	close(next)
	resp.Body.Close()
	within(t, "the handler hears that the caller went away", gone)
}

// An upgraded connection carries bytes both ways, and half-closes.
func TestUpgrade(t *testing.T) {
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, _ core.NodeID) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		rw.Flush()
		io.Copy(c, rw)
		io.WriteString(c, "bye")
	})
	conn := upgrade(t, a.to(b))
	defer conn.Close()
	blob := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		conn.Write(blob)
		conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, append(blob, "bye"...)) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

// The peer may end its half first.
func TestUpgradeEndedByThePeerFirst(t *testing.T) {
	rest := make(chan string, 1)
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, _ core.NodeID) {
		c, _, _ := http.NewResponseController(w).Hijack()
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
		c.(interface{ CloseWrite() error }).CloseWrite()
		got, _ := io.ReadAll(c)
		rest <- string(got)
	})
	conn := upgrade(t, a.to(b))
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	io.WriteString(conn, "still here")
	conn.Close()
	if got := within(t, "the rest", rest); got != "still here" {
		t.Errorf("got %q", got)
	}
}

func upgrade(t testing.TB, via http.RoundTripper) io.ReadWriteCloser {
	t.Helper()
	r := request(t, "GET", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "raw")
	resp, err := via.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	return resp.Body.(io.ReadWriteCloser)
}

// unread is a body that must not be touched.
type unread struct{ t testing.TB }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func (u unread) Close() error { return nil }

// A refusal, be it the handler's or the door's, comes before a large body goes
// out; the body can then be sent elsewhere.
func TestRefusedBeforeTheBody(t *testing.T) {
	f := newFleet()
	a := f.join(t, "a-1", hello)
	refuses := f.join(t, "b-1", func(w http.ResponseWriter, _ *http.Request, _ core.NodeID) {
		w.WriteHeader(http.StatusMisdirectedRequest)
	})
	sums := f.join(t, "c-1", func(w http.ResponseWriter, r *http.Request, _ core.NodeID) {
		if r.Header.Get("Expect") != "" {
			t.Error("the handler sees what the peers agreed on")
		}
		h := sha256.New()
		io.Copy(h, r.Body)
		fmt.Fprintf(w, "%x", h.Sum(nil))
	})
	content := bytes.Repeat([]byte("x"), 1<<20)
	body := NewBody(io.NopCloser(bytes.NewReader(content)))
	offer := func(via http.RoundTripper, length int64) (*http.Response, error) {
		rc, ok := body.Open()
		if !ok {
			t.Fatal("the body was read")
		}
		r := request(t, "POST", nil)
		r.Body, r.ContentLength = rc, length
		return via.RoundTrip(r)
	}
	for range 2 {
		resp, err := offer(a.to(refuses), -1)
		if err != nil || resp.StatusCode != http.StatusMisdirectedRequest {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	}
	if _, err := offer(a.client.Transport("other-1", refuses.contact), -1); !NotConnected(err) {
		t.Fatal(err)
	}
	resp, err := offer(a.to(sums), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); string(got) != fmt.Sprintf("%x", sha256.Sum256(content)) {
		t.Errorf("got %s", got)
	}
	if _, ok := body.Open(); ok {
		t.Error("a body that was read is offered again")
	}
}

// A GET with a body of unknown length must not be read ahead of the question.
func TestRefusedGetKeepsItsBody(t *testing.T) {
	a, b := pair(t, func(w http.ResponseWriter, _ *http.Request, _ core.NodeID) {
		w.WriteHeader(http.StatusMisdirectedRequest)
	})
	r := request(t, "GET", unread{t})
	if status, _ := send(t, a.to(b), r); status != http.StatusMisdirectedRequest {
		t.Error(status)
	}
}

// The answer "100 Continue" is between the peers; other informational answers,
// and one that the caller asked for, are the caller's.
func TestInformationalAnswers(t *testing.T) {
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, _ core.NodeID) {
		w.WriteHeader(http.StatusContinue)
		w.WriteHeader(http.StatusEarlyHints)
		io.Copy(w, r.Body)
	})
	for _, asks := range []bool{false, true} {
		for _, size := range []int{0, 10, 2 * ExpectAbove} {
			var codes []int
			r := request(t, "POST", strings.NewReader(strings.Repeat("x", size)))
			if asks && size > 0 {
				r.Header.Set("Expect", "100-continue")
			}
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
					codes = append(codes, code)
					return nil
				},
			}))
			if _, got := send(t, a.to(b), r); len(got) != size {
				t.Errorf("%d bytes came back of %d", len(got), size)
			}
			want := []int{http.StatusEarlyHints}
			if asks && size > 0 {
				want = []int{http.StatusContinue, http.StatusEarlyHints}
			}
			if fmt.Sprint(codes) != fmt.Sprint(want) {
				t.Errorf("asks=%v size=%d: got %v, want %v", asks, size, codes, want)
			}
		}
	}
}

func TestTheBodyOfAFailedAttemptIsClosed(t *testing.T) {
	closed := make(chan struct{}, 8)
	a, b := pair(t, func(w http.ResponseWriter, r *http.Request, _ core.NodeID) { io.Copy(w, r.Body) })
	for _, via := range []http.RoundTripper{a.to(b), a.client.Transport("b-1", core.Contact{})} {
		r := request(t, "POST", nil)
		r.Body, r.ContentLength = closing{strings.NewReader("x"), closed}, 1
		if resp, err := via.RoundTrip(r); err == nil {
			resp.Body.Close()
		} else if !errors.Is(err, ErrNoContact) {
			t.Error(err)
		}
		within(t, "the body is closed", closed)
	}
}

type closing struct {
	io.Reader
	closed chan struct{}
}

func (c closing) Close() error {
	c.closed <- struct{}{}
	return nil
}
