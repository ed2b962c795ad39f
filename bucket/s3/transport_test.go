package s3

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestTigrisIsAskedForConsistentAnswers(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("X-Tigris-Consistent")
		w.Header().Set("ETag", `"v"`)
	}))
	defer server.Close()
	for host, want := range map[string]string{"tigris.example": "true", "t3.storage.dev": "true", "s3.example": ""} {
		b, err := Open(t.Context(), Options{
			Bucket: "fleet", Endpoint: "http://" + host,
			AccessKeyID: "testkey", SecretAccessKey: "testsecret123",
		})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		b.http.Dial(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		})
		if _, err := b.Get(t.Context(), "k"); err != nil || asked != want {
			t.Errorf("read from %s: header %q, %v", host, asked, err)
		}
		asked = ""
		if _, err := b.Create(t.Context(), "k", nil); err != nil || asked != want {
			t.Errorf("write to %s: header %q, %v", host, asked, err)
		}
	}
}
