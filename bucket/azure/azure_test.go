package azure_test

import (
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/azure"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/internal/azserver"
)

func open(t *testing.T, o azure.Options) *azure.Bucket {
	t.Helper()
	b, err := azure.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestConformance(t *testing.T) {
	o := azserver.Start(t).Options()
	o.Prefix = "/some/fleet/"
	buckettest.Run(t, func(t *testing.T) bucket.Bucket { return open(t, o) })
}
