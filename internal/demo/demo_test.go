package demo

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

func serve(t *testing.T, h http.Handler, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, target, nil).WithContext(t.Context())
	r.Header.Set("Tenure-Node", "n-1")
	h.ServeHTTP(w, r)
	return w
}

func TestCounter(t *testing.T) {
	h := New("room:42", 3)
	for _, step := range []struct{ method, path, want string }{
		{"GET", "/", `{"cell":"room:42","node":"n-1","epoch":3,"count":0}`},
		{"POST", "/", `{"cell":"room:42","node":"n-1","epoch":3,"count":1}`},
		{"POST", "/any", `{"cell":"room:42","node":"n-1","epoch":3,"count":2}`},
		{"GET", "/", `{"cell":"room:42","node":"n-1","epoch":3,"count":2}`},
	} {
		w := serve(t, h, step.method, step.path)
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != step.want {
			t.Errorf("%s %s: %d %s", step.method, step.path, w.Code, got)
		}
	}
	if w := serve(t, h, "DELETE", "/"); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("DELETE: %d %v", w.Code, w.Header())
	}
	if w := serve(t, h, "POST", "/slow"); w.Code != 405 {
		t.Errorf("POST /slow: %d", w.Code)
	}
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New("c", 1)
		start := time.Now()
		if w := serve(t, h, "GET", "/slow?for=3s"); w.Code != 200 || time.Since(start) != 3*time.Second {
			t.Errorf("%d after %v", w.Code, time.Since(start))
		}
		for _, bad := range []string{"x", "-1s", "6m", "5"} {
			if w := serve(t, h, "GET", "/slow?for="+bad); w.Code != 400 {
				t.Errorf("%s: %d", bad, w.Code)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/slow?for=1m", nil).WithContext(ctx))
		if w.Body.Len() != 0 {
			t.Error("answered a client that has left")
		}
	})
}

func TestEvents(t *testing.T) {
	h := New("c", 1)
	s := httptest.NewServer(h)
	defer s.Close()
	res, err := http.Get(s.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	expect := func(want string) {
		t.Helper()
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, "id: ") {
				if line != "id: "+want+"\n" {
					t.Errorf("got %q, want id %s", line, want)
				}
				return
			}
		}
	}
	expect("0")
	for range 3 {
		serve(t, h, "POST", "/")
	}
	expect("1")
	expect("2")
	expect("3")
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New("c", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 31*time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/events", nil).WithContext(ctx))
		if n := strings.Count(w.Body.String(), ": still here"); n != 2 {
			t.Errorf("%d heartbeats in 31 s", n)
		}
	})
}

func TestEventStreamsAreBounded(t *testing.T) {
	c := New("c", 1)
	c.watched = maxWatchers
	if w := serve(t, c, "GET", "/events"); w.Code != 503 {
		t.Errorf("got %d", w.Code)
	}
}

func TestEcho(t *testing.T) {
	h := New("c", 1)
	s := httptest.NewServer(h)
	defer s.Close()
	c, _, err := websocket.Dial(t.Context(), s.URL+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	for range 3 {
		if err := c.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, msg, err := c.Read(t.Context()); err != nil || string(msg) != "hello" {
			t.Fatalf("%q %v", msg, err)
		}
	}
}
