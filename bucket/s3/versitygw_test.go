package s3_test

import (
	"strings"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/internal/s3server"
)

func TestConformanceVersitygw(t *testing.T) {
	o := s3server.Start(t).Options()
	o.Prefix = "/some/fleet/"
	buckettest.Run(t, func(t *testing.T) bucket.Bucket { return open(t, o) })
}

func TestConformanceMinIO(t *testing.T) {
	o := s3server.StartMinIO(t).Options()
	buckettest.Run(t, func(t *testing.T) bucket.Bucket { return open(t, o) })
}

// Two fleets may share a bucket.
func TestPrefixIsolation(t *testing.T) {
	o := s3server.Start(t).Options()
	whole := open(t, o)
	o.Prefix = "a"
	a := open(t, o)
	o.Prefix = "ab"
	ab := open(t, o)
	for _, b := range []bucket.Bucket{a, ab} {
		if _, err := b.Create(t.Context(), "cells/x", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for b, want := range map[bucket.Bucket]string{a: "cells/x", ab: "cells/x", whole: "a/cells/x ab/cells/x"} {
		l, err := b.List(t.Context(), "", "", 0)
		if got := strings.Join(l.Keys, " "); err != nil || got != want {
			t.Errorf("listed %q, %v; want %q", got, err, want)
		}
	}
}
