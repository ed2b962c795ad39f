package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/core"
	"github.com/tenure-go/tenure/node"
)

// An owned cell is taken back while authority still lasts: slack before its end.
func TestOwnershipEndsBeforeAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFleet(t).start("a")
		c := a.Begin(context.Background(), node.Request{Cell: "x", Own: true, Timeout: time.Minute})
		defer c.Done()
		if e, ok := c.Next(context.Background()).(core.Dispatch); !ok {
			t.Fatalf("got %#v", e)
		}
		<-time.After(time.Minute) // however long it is held
		if c.Context().Err() != nil {
			t.Fatalf("the ownership ended: %v", context.Cause(c.Context()))
		}
		a.cut()
		<-c.Context().Done()
		if left := a.Status().Authority; left <= 0 || left > 500*time.Millisecond {
			t.Errorf("it ended with %s of authority left", left)
		}
		if cause := context.Cause(c.Context()); !errors.Is(cause, node.ErrAborted) {
			t.Errorf("it ended with %v", cause)
		}
		<-a.Done()
	})
}

// Everything that waits or runs is answered at the fence, not at its own time.
func TestFenceAnswersEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFleet(t).start("a")
		running := a.Begin(context.Background(), node.Request{Cell: "x", Timeout: time.Hour})
		defer running.Done()
		if e, ok := running.Next(context.Background()).(core.Dispatch); !ok {
			t.Fatalf("got %#v", e)
		}
		streaming := a.Begin(context.Background(), node.Request{Cell: "x", Timeout: time.Hour})
		defer streaming.Done()
		streaming.Next(context.Background())
		if _, ok := streaming.Ready(context.Background()); !ok {
			t.Fatal("the stream was not let out")
		}
		a.cut()
		<-time.After(9 * time.Second)
		waiting := a.Begin(context.Background(), node.Request{Cell: "y", Timeout: time.Hour})
		defer waiting.Done()
		<-a.Done()

		if e, ok := waiting.Next(context.Background()).(core.Fail); !ok || e.Failure.Code != core.CodeNodeUnavailable || e.Failure.Ran {
			t.Errorf("the waiting request got %#v", e)
		}
		if cause := context.Cause(running.Context()); !errors.Is(cause, node.ErrAborted) {
			t.Errorf("whoever runs the request is not told: %v", cause)
		}
		if f, ok := running.Ready(context.Background()); ok || f.Code != core.CodeAuthorityLost || !f.Ran {
			t.Errorf("the running request got %#v, %v", f, ok)
		}
		if !errors.Is(context.Cause(streaming.Context()), node.ErrAborted) {
			t.Errorf("the stream ended with %v", context.Cause(streaming.Context()))
		}
		late := a.Begin(context.Background(), node.Request{Cell: "x", Timeout: time.Hour})
		defer late.Done()
		if e, ok := late.Next(context.Background()).(core.Fail); !ok || e.Failure.Ran {
			t.Errorf("a request after the fence got %#v", e)
		}
	})
}
