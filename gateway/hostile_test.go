package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// An application behind CGI or WSGI cannot tell "_" from "-".
func TestUnderscoresDoNotSpoof(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		for k := range r.Header {
			if strings.Contains(k, "_") {
				fmt.Fprint(w, k, " ")
			}
		}
		w.Header()["tenure_epoch"] = []string{"7"}
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		req := request(t, "GET", f.url+"/cells/x/", nil)
		for _, k := range []string{"Tenure_Cell", "TENURE_EPOCH", "tenure-_x", "X_Forwarded_Prefix", "X-Forwarded_For", "Mine_Too"} {
			req.Header[k] = []string{"evil"}
		}
		res := do(t, req)
		if body := readAll(t, res.Body); body != "Mine_too " {
			t.Errorf("the application saw %q", body)
		}
		for k := range res.Header {
			if hasPrefix(k, ours) && strings.Contains(k, "_") {
				t.Errorf("the client saw %q", k)
			}
		}
	})
}

// raw sends bytes as they are and returns the connection.
func raw(t *testing.T, f *fleet, request string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, request)
	return c
}

// An application that would go on in HTTP/2 is not asked to.
func TestNoWayToH2C(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q %q", r.Header["Upgrade"], r.Header["Http2-Settings"])
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		for _, connection := range []string{"Upgrade", "Upgrade, HTTP2-Settings"} {
			c := raw(t, f, "GET /cells/x/ HTTP/1.1\r\nHost: x\r\nUpgrade: foo, H2C\r\nHTTP2-Settings: AAA\r\nConnection: "+connection+"\r\n\r\n")
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if body := readAll(t, res.Body); body != "[] []" {
				t.Errorf("the application saw %s", body)
			}
		}
	})
}

// What a client sends right behind its wish to upgrade arrives.
func TestEarlyBytesOfAnUpgrade(t *testing.T) {
	app := func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, err := rw.ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		io.WriteString(c, line)
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		c := raw(t, f, "GET /cells/x/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly\n")
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%+v, %v", res, err)
		}
		if line, err := in.ReadString('\n'); line != "early\n" {
			t.Errorf("got %q, %v", line, err)
		}
	})
}

// A body that is not one is the client's fault, whichever node it is sent to,
// and says nothing about the owner.
func TestBrokenUploadSaysNothingOfThePeer(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}
	everyWay(t, app, func(t *testing.T, f *fleet) {
		c := raw(t, f, "POST /cells/x/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("got %s", res.Status)
		}
		<-f.node.last().done
		if hops := f.node.last().hops(); len(hops) != 0 {
			t.Errorf("the core was told of %v", hops)
		}
	})
}
