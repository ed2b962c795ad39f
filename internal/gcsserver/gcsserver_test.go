package gcsserver_test

import (
	"strings"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/gcs"
	"github.com/tenure-go/tenure/internal/gcsserver"
)

func TestServer(t *testing.T) {
	server := gcsserver.Start(t)
	for _, variable := range server.Env() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	b, err := gcs.Open(t.Context(), gcs.Options{Bucket: server.Bucket}) // as a child process has it
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := bucket.Test(t.Context(), b, "probe/a-1", nil); err != nil {
		t.Error(err)
	}
}
