package s3_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/s3"
	"github.com/tenure-go/tenure/internal/s3server"
)

// fake runs a fast S3 server, which checks no signature.
func fake(t *testing.T) s3.Options { return s3server.StartFake(t).Options() }

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
	buckettest.Run(t, func(t *testing.T) bucket.Bucket { return open(t, o) })
}

func openError(t *testing.T, name, endpoint, prefix string) error {
	o := options(endpoint)
	o.Bucket, o.Prefix = name, prefix
	_, err := s3.Open(t.Context(), o)
	return err
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
