package gcs_test

import (
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/gcs"
	"github.com/tenure-go/tenure/internal/gcsserver"
)

func open(t *testing.T, o gcs.Options) *gcs.Bucket {
	t.Helper()
	b, err := gcs.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestConformance(t *testing.T) {
	o := gcsserver.Start(t).Options()
	o.Prefix = "/some/fleet/"
	buckettest.Run(t, func(t *testing.T) bucket.Bucket { return open(t, o) })
}
