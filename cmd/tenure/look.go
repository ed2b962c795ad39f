package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tenure-go/tenure"
	"github.com/tenure-go/tenure/internal/inspect"
)

// lookOptions are the flags of the commands that look at a fleet's buckets.
type lookOptions struct {
	bucket, leaseBucket string
	after               string
	limit               int
	asJSON              bool
}

func (o *lookOptions) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.bucket, "bucket", defaultBucket, "`BUCKET` that the fleet shares, as given to \"tenure serve\"")
	f.StringVar(&o.leaseBucket, "lease-bucket", "", "`BUCKET` of the node leases, if the fleet was given one")
	describeDefault(f, "lease-bucket", "the bucket")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object")
}

func (o *lookOptions) definePage(f *pflag.FlagSet, what string) {
	f.IntVar(&o.limit, "limit", 100, "most `"+strings.ToUpper(what)+"` to print, up to 1000")
	f.StringVar(&o.after, "after", "", "go on after this `NAME`, which the page before ended with")
}

func (o *lookOptions) check() error {
	if o.limit < 1 || o.limit > 1000 {
		return usagef("--limit is %d, must be from 1 to 1000", o.limit)
	}
	return notEmpty("bucket", o.bucket)
}

// leases is the URL of the lease bucket.
func (o *lookOptions) leases() string { return tenure.LeaseBucketURL(o.bucket, o.leaseBucket) }

// open opens both buckets, and makes nothing: a file that is not there holds no
// fleet.
func (o *lookOptions) open(ctx context.Context) (f inspect.Fleet, closeAll func(), err error) {
	for _, url := range []string{o.bucket, o.leases()} {
		path, ok := strings.CutPrefix(url, "sqlite:")
		if _, err := os.Stat(path); ok && path != "" && errors.Is(err, fs.ErrNotExist) {
			return f, nil, fmt.Errorf("there is no fleet in %s: the file does not exist. Which --bucket was the fleet given? \"tenure serve\" and \"tenure up\" make a new one", url)
		}
	}
	cells, err := tenure.OpenBucket(ctx, o.bucket)
	if err != nil {
		return f, nil, err
	}
	leases, err := tenure.OpenBucket(ctx, o.leases())
	if err != nil {
		cells.Close()
		return f, nil, err
	}
	return inspect.Fleet{Cells: cells, Leases: leases}, func() { cells.Close(); leases.Close() }, nil
}

// look opens the buckets and has f look at them, until a signal says to stop.
func (p *program) look(o *lookOptions, f func(context.Context, inspect.Fleet) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case s := <-p.signals:
			cancel(fmt.Errorf("stopped by a signal: %s", s))
		case <-ctx.Done():
		}
	}()
	fleet, closeAll, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	err = f(ctx, fleet)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// goOn says how to see the next page.
func (p *program) goOn(command, next string) {
	if next != "" {
		fmt.Fprintf(p.stderr, "There are more: %s, with the same flags and --after '%s'\n", command, next)
	}
}
