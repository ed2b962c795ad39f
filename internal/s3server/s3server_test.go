package s3server_test

import (
	"strings"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/s3"
	"github.com/tenure-go/tenure/internal/s3server"
)

func TestServers(t *testing.T) {
	t.Run("versitygw", func(t *testing.T) { testServer(t, s3server.Start(t)) })
	t.Run("gofakes3", func(t *testing.T) { testServer(t, s3server.StartFake(t)) })
}

func testServer(t *testing.T, server *s3server.Server) {
	for _, variable := range server.Env() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	o := server.Options()
	o.AccessKeyID, o.SecretAccessKey, o.Region = "", "", "" // as a child process has it
	b, err := s3.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := bucket.Test(t.Context(), b, "probe/a-1", nil); err != nil {
		t.Error(err)
	}
	server.Stop()
	server.Stop()
	if _, err := b.Create(t.Context(), "k", nil); err == nil {
		t.Error("it goes on after Stop")
	}
}
