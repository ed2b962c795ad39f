package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/sqlite"
)

func TestConformance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	buckettest.Run(t, func(t *testing.T) bucket.Bucket { return open(t, path) }, buckettest.Keys(1100))
}

func open(t *testing.T, path string) *sqlite.Bucket {
	t.Helper()
	b, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}
