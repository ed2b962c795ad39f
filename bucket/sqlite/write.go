package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	sqlite3 "modernc.org/sqlite"
	sqlite3lib "modernc.org/sqlite/lib"

	"github.com/tenure-go/tenure/bucket"
)

// A change is the statement of a conditional write. It touches one row, or none
// where the condition does not hold.
type change struct {
	statement string
	args      []any
}

// put runs one conditional write; statement makes it for the version and stamp
// that the object gets.
func (b *Bucket) put(ctx context.Context, verb, key string, statement func(next, stamp int64) change) (bucket.Written, error) {
	w, err := b.write(ctx, func(ctx context.Context, conn *sql.Conn) (bucket.Written, error) {
		// Stamped under the write lock, so that stamps ascend with versions.
		stamp := b.clock.nanoseconds()
		var next int64
		row := conn.QueryRowContext(ctx, `UPDATE sequence SET last = last + 1 RETURNING last`)
		if err := row.Scan(&next); err != nil {
			return bucket.Written{}, err
		}
		c := statement(next, stamp)
		result, err := conn.ExecContext(ctx, c.statement, c.args...)
		if err != nil {
			return bucket.Written{}, err
		}
		if n, err := result.RowsAffected(); err != nil {
			return bucket.Written{}, err
		} else if n == 0 {
			return bucket.Written{}, bucket.ErrConflict
		}
		return bucket.Written{Version: formatVersion(next), Date: stampTime(stamp)}, nil
	})
	if err != nil {
		return bucket.Written{}, b.explain(verb, key, err)
	}
	return w, nil
}

// write runs apply in a transaction under the write lock. What fails before
// COMMIT was not applied; a COMMIT that fails, or that the caller did not wait
// for, is ambiguous.
func (b *Bucket) write(ctx context.Context, apply func(context.Context, *sql.Conn) (bucket.Written, error)) (bucket.Written, error) {
	select {
	case b.writing <- struct{}{}:
	case <-ctx.Done():
		return bucket.Written{}, bucket.NotApplied(ctx.Err())
	}
	var p point
	w, err := inBackground(ctx, func() (bucket.Written, error) {
		defer func() { <-b.writing }()
		return b.transact(ctx, &p, apply)
	})
	if err != nil && p.abandon() && !errors.Is(err, bucket.ErrConflict) {
		return bucket.Written{}, bucket.NotApplied(err)
	}
	return w, err
}

// transact returns an error with p undecided or abandoned only where nothing
// was written.
func (b *Bucket) transact(ctx context.Context, p *point, apply func(context.Context, *sql.Conn) (bucket.Written, error)) (bucket.Written, error) {
	conn, err := b.begin(ctx)
	if err != nil {
		return bucket.Written{}, err
	}
	defer conn.Close()
	w, err := apply(ctx, conn)
	if err != nil {
		rollback(conn)
		return bucket.Written{}, err
	}
	if !p.commit() {
		rollback(conn)
		return bucket.Written{}, ctx.Err()
	}
	// Not interruptible: whether it took effect should be known wherever it
	// can be.
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), `COMMIT`); err != nil {
		rollback(conn)
		return bucket.Written{}, fmt.Errorf("commit: %w", err)
	}
	return w, nil
}

// begin returns a connection that holds the file's write lock.
func (b *Bucket) begin(ctx context.Context) (*sql.Conn, error) {
	return retryBusy(ctx, func() (*sql.Conn, error) {
		if err := b.sameFile(); err != nil {
			return nil, err
		}
		return beginOn(ctx, b.db)
	})
}

func beginOn(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		// A context that ends just as the lock is got leaves it held.
		if !isBusy(err) {
			rollback(conn)
		}
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// rollback ends the transaction, or else the connection and so the transaction.
func rollback(conn *sql.Conn) {
	if _, err := conn.ExecContext(context.Background(), `ROLLBACK`); err != nil {
		conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// A lock is tried again after a random part of a pause that grows to
// maxPause. SQLite's own waiting heeds no context and sleeps up to 100 ms at a
// time, which is unfair to whoever waits longest.
const (
	minPause = 200 * time.Microsecond
	maxPause = 4 * time.Millisecond
)

// retryBusy runs f until it fails otherwise than on another connection's lock,
// or ctx ends, or maxWait is over.
func retryBusy[T any](ctx context.Context, f func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		v, err := f()
		if err == nil || !isBusy(err) {
			return v, err
		}
		timer := time.NewTimer(rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return v, fmt.Errorf("%w (after waiting for another process: %w)", err, ctx.Err())
		}
	}
}

// maxWait ends a wait for a lock whose caller set no deadline: nobody holds one
// for longer than a few writes to disk.
const maxWait = 15 * time.Second

// isBusy says that another connection's lock was in the way, and so nothing
// was done.
func isBusy(err error) bool { return resultCode(err) == sqlite3lib.SQLITE_BUSY }

// resultCode is SQLite's primary result code of err, 0 if it has none.
func resultCode(err error) int {
	var e *sqlite3.Error
	if !errors.As(err, &e) {
		return sqlite3lib.SQLITE_OK
	}
	return e.Code() & 0xff
}
