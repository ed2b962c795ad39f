package azserver_test

import (
	"strings"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/azure"
	"github.com/tenure-go/tenure/internal/azserver"
)

func TestServer(t *testing.T) {
	server := azserver.Start(t)
	for _, variable := range server.Env() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	// As a child process has it.
	b, err := azure.Open(azure.Options{Container: server.Container, Endpoint: server.Options().Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := bucket.Test(t.Context(), b, "probe/a-1", nil); err != nil {
		t.Error(err)
	}
}
