package gcs

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"github.com/tenure-go/tenure/bucket"
)

// source gives tokens that hold for an hour, after a while.
type source struct {
	takes time.Duration
	err   error
	n     atomic.Int64
}

func (s *source) Token() (*oauth2.Token, error) {
	n := s.n.Add(1)
	<-time.After(s.takes)
	if s.err != nil {
		return nil, s.err
	}
	return &oauth2.Token{AccessToken: fmt.Sprint("token-", n), Expiry: time.Now().Add(time.Hour)}, nil
}

// take asks for a token, with a second of patience.
func take(t *testing.T, ts *tokens) (string, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	token, err := ts.token(ctx)
	if err != nil {
		return "", time.Since(began), err
	}
	return token.AccessToken, time.Since(began), nil
}

// A token is renewed while the old one holds, and nobody waits for that.
func TestTokenIsRenewedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: 500 * time.Millisecond}
		ts := &tokens{source: s}
		expect := func(what, want string, wait time.Duration) {
			t.Helper()
			if got, took, err := take(t, ts); err != nil || got != want || took != wait {
				t.Errorf("%s: %q after %v, %v; want %q after %v", what, got, took, err, want, wait)
			}
		}
		expect("the first", "token-1", 500*time.Millisecond)
		<-time.After(54 * time.Minute)
		expect("while it holds", "token-1", 0)
		<-time.After(2 * time.Minute)
		expect("near its end", "token-1", 0)
		<-time.After(time.Second)
		expect("soon after", "token-2", 0)
		s.takes = time.Hour
		<-time.After(56 * time.Minute)
		expect("near the end of the second", "token-2", 0)
		<-time.After(5 * time.Minute)
		if _, took, err := take(t, ts); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("after its end, while a new one hangs: %v after %v", err, took)
		}
		if n := s.n.Load(); n != 3 {
			t.Errorf("%d were fetched, want 3", n)
		}
		<-time.After(2 * time.Hour)
	})
}

// A token server in trouble is not asked more than every few seconds.
func TestTokenServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{err: errors.New("sorry")}
		ts := &tokens{source: s}
		for range 100 {
			if _, _, err := take(t, ts); !errors.Is(err, s.err) {
				t.Fatalf("error %v", err)
			}
			<-time.After(100 * time.Millisecond)
		}
		if n := s.n.Load(); n != 2 {
			t.Errorf("it was asked %d times in 10 s, want 2", n)
		}
	})
}

// A token that the store does not take is given up, with what made it.
func TestTokenIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, fresh := &source{}, &source{}
		ts := &tokens{source: old, find: func() (oauth2.TokenSource, error) { return fresh, nil }}
		for range 2 {
			if _, _, err := take(t, ts); err != nil {
				t.Fatal(err)
			}
			ts.forget() // the second time it is too new
		}
		<-time.After(retryAfter)
		ts.forget()
		if _, _, err := take(t, ts); err != nil || old.n.Load() != 1 || fresh.n.Load() != 1 {
			t.Errorf("%v; the old credentials were used %d times, the new ones %d times", err, old.n.Load(), fresh.n.Load())
		}
	})
}

// A service account's key file, against a token server and a store.
func TestApplicationDefaultCredentials(t *testing.T) {
	var given atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token":"given-%d","token_type":"Bearer","expires_in":3600}`, given.Add(1))
			return
		}
		if r.Header.Get("Authorization") != "Bearer given-1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Goog-Generation", "7")
	}))
	defer server.Close()
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", keyFile(t, server.URL+"/token"))
	b, err := Open(t.Context(), Options{Bucket: "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.base != service {
		t.Errorf("the store is at %s", b.base)
	}
	b.base = server.URL
	for range 2 {
		if o, err := b.Get(t.Context(), "k"); err != nil || o.Version != "7" {
			t.Errorf("read %+v, %v", o, err)
		}
	}
	if n := given.Load(); n != 1 {
		t.Errorf("%d tokens were fetched for 2 reads", n)
	}
}

// keyFile writes a service account's key, made for this test.
func keyFile(t *testing.T, tokenURL string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "fleet@test.example", "private_key_id": "1", "token_uri": tokenURL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Without a token nothing is sent, which is a definite failure of a write.
func TestNoToken(t *testing.T) {
	b := &Bucket{tokens: &tokens{source: &source{err: errors.New("sorry")}}, base: "http://127.0.0.1:1", name: "fleet"}
	if _, err := b.Create(t.Context(), "k", nil); !errors.Is(err, bucket.ErrNotApplied) {
		t.Errorf("error %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"no name": {}, "bad prefix": {Bucket: "b", Prefix: "a//b", Emulator: "h:1"},
		"bad name": {Bucket: "a/b", Emulator: "h:1"}, "bad emulator": {Bucket: "b", Emulator: "ftp://h"},
	} {
		if b, err := Open(t.Context(), o); err == nil {
			t.Errorf("%s: opened %+v", name, b)
		}
	}
}
