package mem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/mem"
)

func TestConformance(t *testing.T) {
	store := mem.NewStore(nil)
	buckettest.Run(t, func(*testing.T) bucket.Bucket { return store.Open() })
}

// A store inside a bubble takes the bubble's time.
func TestDefaultClockUnderSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mem.New()
		if _, err := b.Create(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		o, err := b.Get(t.Context(), "a")
		if err != nil || o.Date.Sub(o.Modified) != time.Hour {
			t.Fatalf("age %v, %v", o.Date.Sub(o.Modified), err)
		}
	})
}

func TestInjectedClock(t *testing.T) {
	now := time.Unix(1000, 0)
	store := mem.NewStore(func() time.Time { return now })
	b := store.Open()
	w, err := b.Create(t.Context(), "a", nil)
	if err != nil || !w.Date.Equal(now) {
		t.Fatalf("written %+v, %v", w, err)
	}
	now = now.Add(7)
	o, err := b.Get(t.Context(), "a")
	if err != nil || !o.Date.Equal(now) || !o.Modified.Equal(w.Date) {
		t.Fatalf("read %+v, %v", o, err)
	}
}

func TestClosedHandle(t *testing.T) {
	store := mem.NewStore(nil)
	closed, other := store.Open(), store.Open()
	closed.Close()
	if _, err := closed.Get(t.Context(), "a"); err == nil {
		t.Error("a closed handle reads")
	}
	if _, err := other.Create(t.Context(), "a", nil); err != nil {
		t.Errorf("another handle: %v", err)
	}
}
