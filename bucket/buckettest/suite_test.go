package buckettest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/mem"
)

// Each of these stores has one fault, and the test of the suite that must find
// it. The suite runs on it in a child process, as it is meant to fail.
var brokenStores = map[string]struct {
	caughtBy string
	wrap     func(bucket.Bucket) bucket.Bucket
}{
	"create overwrites": {"CreateRefusedOnExisting", func(b bucket.Bucket) bucket.Bucket { return createOverwrites{b} }},
	"race":              {"OneCreateWins", func(b bucket.Bucket) bucket.Bucket { return everyCreateWins{b} }},
	"replace ignores":   {"ReplaceNeedsTheCurrentVersion", func(b bucket.Bucket) bucket.Bucket { return replaceIgnores{b} }},
	"lost update":       {"NoLostUpdate", func(b bucket.Bucket) bucket.Bucket { return replaceIgnores{b} }},
	"stale reads":       {"ReadAfterWriteAcrossHandles", func(b bucket.Bucket) bucket.Bucket { return &remembers{Bucket: b} }},
	"same version":      {"VersionsAreNew", func(b bucket.Bucket) bucket.Bucket { return oneVersion{b} }},
	"short lists":       {"ListPages", func(b bucket.Bucket) bucket.Bucket { return shortLists{b} }},
	"no times":          {"Times", func(b bucket.Bucket) bucket.Bucket { return noTimes{b} }},
	"deaf":              {"ContextEnded", func(b bucket.Bucket) bucket.Bucket { return deaf{b} }},
}

const brokenVariable = "TENURE_BUCKETTEST_BROKEN"

func TestSuiteCatchesBrokenStores(t *testing.T) {
	for name, broken := range brokenStores {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(os.Args[0], "-test.run=^TestBrokenStore$/^"+broken.caughtBy+"$")
			c.Env = append(os.Environ(), brokenVariable+"="+name)
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestBrokenStore/"+broken.caughtBy) {
				t.Errorf("%s did not catch it: %v\n%s", broken.caughtBy, err, out)
			}
		})
	}
}

// TestBrokenStore is what the child process runs.
func TestBrokenStore(t *testing.T) {
	broken, child := brokenStores[os.Getenv(brokenVariable)]
	if !child {
		t.Skip("only in a child process")
	}
	store := mem.NewStore(nil)
	buckettest.Run(t, func(*testing.T) bucket.Bucket { return broken.wrap(store.Open()) }, buckettest.Keys(30), buckettest.Racers(16))
}

type createOverwrites struct{ bucket.Bucket }

func (b createOverwrites) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if o, err := b.Get(ctx, key); err == nil {
		return b.Replace(ctx, key, body, o.Version)
	}
	return b.Bucket.Create(ctx, key, body)
}

type everyCreateWins struct{ bucket.Bucket }

func (b everyCreateWins) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if _, err := b.Bucket.Create(ctx, key, body); err != nil {
		return bucket.Written{Version: "won"}, nil
	}
	return bucket.Written{Version: "won"}, nil
}

type replaceIgnores struct{ bucket.Bucket }

func (b replaceIgnores) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	if o, err := b.Get(ctx, key); err == nil {
		v = o.Version
	}
	return b.Bucket.Replace(ctx, key, body, v)
}

// remembers answers every read of a key like the first.
type remembers struct {
	bucket.Bucket
	first sync.Map
}

func (b *remembers) Get(ctx context.Context, key string) (bucket.Object, error) {
	o, err := b.Bucket.Get(ctx, key)
	if err != nil {
		return o, err
	}
	first, _ := b.first.LoadOrStore(key, o)
	return first.(bucket.Object), nil
}

type oneVersion struct{ bucket.Bucket }

func (b oneVersion) Replace(ctx context.Context, key string, body []byte, _ bucket.Version) (bucket.Written, error) {
	o, err := b.Get(ctx, key)
	if err != nil {
		return bucket.Written{}, err
	}
	_, err = b.Bucket.Replace(ctx, key, body, o.Version)
	return bucket.Written{Version: "1"}, err
}

type shortLists struct{ bucket.Bucket }

func (b shortLists) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	l, err := b.Bucket.List(ctx, prefix, after, limit)
	if n := len(l.Keys); n > 5 {
		l.Keys = slices.Delete(l.Keys, n/2, n/2+1)
	}
	return l, err
}

type noTimes struct{ bucket.Bucket }

func (b noTimes) Get(ctx context.Context, key string) (bucket.Object, error) {
	o, err := b.Bucket.Get(ctx, key)
	o.Stamps = bucket.Stamps{Date: o.Date}
	return o, err
}

type deaf struct{ bucket.Bucket }

func (b deaf) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	return b.Bucket.Create(context.WithoutCancel(ctx), key, body)
}
