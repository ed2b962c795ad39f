package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/tenure-go/tenure/bucket"
)

func openHere(t *testing.T) *Bucket {
	t.Helper()
	b, err := Open(filepath.Join(t.TempDir(), "fleet.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func insert(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `INSERT INTO object VALUES ('k', x'', 99, 0, '')`)
	return err
}

// A deferred foreign key lets exactly the COMMIT fail.
func TestFailedCommitIsAmbiguous(t *testing.T) {
	b := openHere(t)
	b.db.SetMaxOpenConns(1) // the pragma is the connection's
	if _, err := b.db.Exec(`PRAGMA foreign_keys = ON;
		CREATE TABLE parent (id INTEGER PRIMARY KEY);
		CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)`); err != nil {
		t.Fatal(err)
	}
	_, err := b.write(t.Context(), func(ctx context.Context, conn *sql.Conn) (bucket.Written, error) {
		_, err := conn.ExecContext(ctx, `INSERT INTO child VALUES (7)`)
		return bucket.Written{}, errors.Join(err, insert(ctx, conn))
	})
	if err == nil || errors.Is(err, bucket.ErrNotApplied) || errors.Is(err, bucket.ErrConflict) {
		t.Errorf("failed commit: %v, want an ambiguous error", err)
	}
	// The connection is clean again.
	if _, err := b.Create(t.Context(), "k", nil); err != nil {
		t.Errorf("a write after it: %v", err)
	}
}

// A caller that gives up before the COMMIT is told so, and is right.
func TestAbandonedWriteIsNotApplied(t *testing.T) {
	b := openHere(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	_, err := b.write(ctx, func(_ context.Context, conn *sql.Conn) (bucket.Written, error) {
		err := insert(context.Background(), conn)
		cancel()
		<-release // a stalled disk
		return bucket.Written{Version: "99"}, err
	})
	if !errors.Is(err, bucket.ErrNotApplied) || !errors.Is(err, context.Canceled) {
		t.Errorf("abandoned write: %v", err)
	}
	close(release)
	if _, err := b.Create(t.Context(), "other", nil); err != nil { // comes after it
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "k"); !errors.Is(err, bucket.ErrNotExist) {
		t.Errorf("get of what was not applied: %v", err)
	}
}
