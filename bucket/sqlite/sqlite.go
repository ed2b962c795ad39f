// Package sqlite is a bucket in one SQLite file, for the processes of one
// machine. Processes may open the same file at once; an acknowledged write
// survives the death of any of them, and of the machine.
//
// A file has one write lock. Records whose writes must not wait for each other
// belong in two files.
//
// The file must be on a local disk: SQLite's write-ahead log does not work
// between machines. Nothing else in a process may open the file: on Unix,
// closing it anywhere in the process drops the process's locks.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tenure-go/tenure/bucket"
)

// maxConns bounds the connections to the file, and with them the operations
// that a stalled disk can hold up.
const maxConns = 8

// Bucket is one handle on a file. It implements bucket.Bucket.
type Bucket struct {
	db    *sql.DB
	path  string
	file  os.FileInfo // of the file that Open opened
	clock clock
	// writing holds one token, for the writer of this process: writers queue
	// here in order, and only the first competes with other processes.
	writing chan struct{}
}

var _ bucket.Bucket = (*Bucket)(nil)

// Get implements bucket.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (bucket.Object, error) {
	if err := bucket.CheckRead(ctx, key); err != nil {
		return bucket.Object{}, err
	}
	o, err := inBackground(ctx, func() (bucket.Object, error) {
		return retryBusy(ctx, func() (bucket.Object, error) { return b.get(ctx, key) })
	})
	if err != nil {
		return bucket.Object{}, b.explain("read", key, err)
	}
	return o, nil
}

func (b *Bucket) get(ctx context.Context, key string) (bucket.Object, error) {
	if err := b.sameFile(); err != nil {
		return bucket.Object{}, err
	}
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return bucket.Object{}, err
	}
	defer conn.Close()
	// After the wait for a connection, but before the record is read: an age
	// must not come out too large.
	date := b.clock.now()
	var (
		o       bucket.Object
		version int64
		stamp   int64
		origin  string
	)
	row := conn.QueryRowContext(ctx, `SELECT body, version, stamp, origin FROM object WHERE key = ?`, key)
	err = row.Scan(&o.Body, &version, &stamp, &origin)
	if errors.Is(err, sql.ErrNoRows) {
		return o, bucket.ErrNotExist
	}
	if err != nil {
		return o, err
	}
	if err := bucket.CheckBody(key, int64(len(o.Body))); err != nil {
		return bucket.Object{}, err
	}
	o.Version = formatVersion(version)
	o.Date = date
	if origin == b.clock.origin {
		o.Modified = stampTime(stamp)
	}
	return o, nil
}

// Create implements bucket.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body []byte) (bucket.Written, error) {
	if err := bucket.CheckWrite(ctx, key, body); err != nil {
		return bucket.Written{}, err
	}
	return b.put(ctx, "create", key, func(next, stamp int64) change {
		return change{
			`INSERT INTO object (key, body, version, stamp, origin) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			[]any{key, notNil(body), next, stamp, b.clock.origin},
		}
	})
}

// Replace implements bucket.Bucket.
func (b *Bucket) Replace(ctx context.Context, key string, body []byte, v bucket.Version) (bucket.Written, error) {
	if err := bucket.CheckReplace(ctx, key, body, v); err != nil {
		return bucket.Written{}, err
	}
	old, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return bucket.Written{}, fmt.Errorf("replace %q in %s: %w: %q is no version of this store", key, b.path, bucket.ErrConflict, v)
	}
	return b.put(ctx, "replace", key, func(next, stamp int64) change {
		return change{
			`UPDATE object SET body = ?, version = ?, stamp = ?, origin = ? WHERE key = ? AND version = ?`,
			[]any{notNil(body), next, stamp, b.clock.origin, key, old},
		}
	})
}

// Delete implements bucket.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := bucket.CheckWrite(ctx, key, nil); err != nil {
		return err
	}
	_, err := b.write(ctx, func(ctx context.Context, conn *sql.Conn) (bucket.Written, error) {
		_, err := conn.ExecContext(ctx, `DELETE FROM object WHERE key = ?`, key)
		return bucket.Written{}, err
	})
	if err != nil {
		return b.explain("delete", key, err)
	}
	return nil
}

// List implements bucket.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	if err := ctx.Err(); err != nil {
		return bucket.Listing{}, err
	}
	l, err := inBackground(ctx, func() (bucket.Listing, error) {
		return retryBusy(ctx, func() (bucket.Listing, error) {
			return b.list(ctx, prefix, after, bucket.PageLimit(limit))
		})
	})
	if err != nil {
		return bucket.Listing{}, b.explain("list", prefix, err)
	}
	return l, nil
}

// list walks the primary key from the first candidate and stops at the first
// key that does not belong, so a page costs what it returns.
func (b *Bucket) list(ctx context.Context, prefix, after string, limit int) (bucket.Listing, error) {
	if err := b.sameFile(); err != nil {
		return bucket.Listing{}, err
	}
	query, from := `SELECT key FROM object WHERE key >= ? ORDER BY key LIMIT ?`, prefix
	if after >= prefix && after != "" {
		query, from = `SELECT key FROM object WHERE key > ? ORDER BY key LIMIT ?`, after
	}
	rows, err := b.db.QueryContext(ctx, query, from, limit+1)
	if err != nil {
		return bucket.Listing{}, err
	}
	defer rows.Close()
	var l bucket.Listing
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return bucket.Listing{}, err
		}
		if !strings.HasPrefix(key, prefix) {
			break
		}
		if len(l.Keys) == limit {
			l.Next = l.Keys[limit-1]
			break
		}
		l.Keys = append(l.Keys, key)
	}
	return l, rows.Err()
}

// Traits implements bucket.Bucket. The stamps are in nanoseconds.
func (b *Bucket) Traits() bucket.Traits { return bucket.Traits{} }

// Fresh implements bucket.Bucket. It does nothing: a connection to a file does
// not go dead, and one left in doubt by a failed write is dropped at once.
func (b *Bucket) Fresh() {}

// Close implements bucket.Bucket.
func (b *Bucket) Close() error { return b.db.Close() }

// sameFile fails when the file was removed, or another put in its place, since
// it was opened. SQLite would go on with the old one, out of sight of
// processes that open the path now, and both would own every cell.
func (b *Bucket) sameFile() error {
	info, err := os.Stat(b.path)
	if err != nil {
		return fmt.Errorf("the bucket's file is gone while in use; restart this process: %w", err)
	}
	if !os.SameFile(info, b.file) {
		return errors.New("the bucket's file was replaced by another while in use; restart this process")
	}
	return nil
}

func (b *Bucket) explain(verb, key string, err error) error {
	return fmt.Errorf("%s %q in %s: %w", verb, key, b.path, err)
}

func formatVersion(v int64) bucket.Version { return bucket.Version(strconv.FormatInt(v, 10)) }

// notNil makes an empty body an empty blob, where nil would be NULL.
func notNil(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}

// inBackground runs f and returns its result, or ctx's error as soon as ctx
// ends: a system call on a stalled disk heeds no context.
func inBackground[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// point is where a write stands between its caller, who may give up, and the
// goroutine that runs it.
type point struct{ state atomic.Int32 }

const (
	undecided = iota
	committing
	abandoned
)

// commit reports whether the write may go on to its COMMIT.
func (p *point) commit() bool { return p.state.CompareAndSwap(undecided, committing) }

// abandon reports whether the write was stopped before its COMMIT.
func (p *point) abandon() bool { return p.state.CompareAndSwap(undecided, abandoned) }
