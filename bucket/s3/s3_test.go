package s3_test

import (
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/s3"
)

// fake starts an S3 server in this process.
func fake(t *testing.T) s3.Options {
	backend := s3mem.New()
	if err := backend.CreateBucket("fleet"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return options(server.URL)
}

func options(endpoint string) s3.Options {
	return s3.Options{
		Bucket: "fleet", Endpoint: endpoint, PathStyle: true,
		AccessKeyID: "testkey", SecretAccessKey: "testsecret123",
	}
}

func open(t *testing.T, o s3.Options) *s3.Bucket {
	t.Helper()
	b, err := s3.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestConformanceFake(t *testing.T) {
	o := fake(t)
	buckettest.Run(t, func(t *testing.T) bucket.Bucket { return open(t, o) }, buckettest.Keys(1200))
}

func openError(t *testing.T, name, endpoint, prefix string) error {
	o := options(endpoint)
	o.Bucket, o.Prefix = name, prefix
	_, err := s3.Open(t.Context(), o)
	return err
}
