package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	sqlite3lib "modernc.org/sqlite/lib"
)

const (
	// applicationID marks a file as ours in its header.
	applicationID = 0x546e7572 // "Tnur"
	// schemaVersion is this program's; it goes up when older programs could no
	// longer use the file rightly.
	schemaVersion = 1
)

// schema has the counter of versions in a table of its own, so that a version
// is never given out again, also not after a delete. A stamp is comparable only
// to stamps of the same origin.
const schema = `
CREATE TABLE object (
	key     TEXT    NOT NULL PRIMARY KEY,
	body    BLOB    NOT NULL,
	version INTEGER NOT NULL,
	stamp   INTEGER NOT NULL,
	origin  TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sequence (
	one  INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	last INTEGER NOT NULL
) STRICT;
INSERT INTO sequence (one, last) VALUES (1, 0);
`

// Open opens the bucket in the file at path, and makes the file and the folders
// above it if need be. Its errors name the path and what to do.
func Open(path string) (*Bucket, error) {
	abs, err := prepare(path)
	if err != nil {
		return nil, err
	}
	clock, err := newClock()
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dataSource(abs))
	if err != nil {
		return nil, fmt.Errorf("bucket file %s: %w", path, err)
	}
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	info, err := setUp(db, abs)
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("bucket file %s: %w", path, advise(err))
	}
	return &Bucket{db: db, path: abs, file: info, clock: clock, writing: make(chan struct{}, 1)}, nil
}

// prepare makes the folder of the file and returns the file's absolute path.
func prepare(path string) (string, error) {
	if path == "" {
		return "", errors.New("the bucket file has no path; write sqlite:PATH")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("bucket file %s: %w", path, err)
	}
	if info, err := os.Stat(abs); err == nil && info.IsDir() {
		return "", fmt.Errorf("bucket file %s is a directory; name a file in it, such as %s", path, filepath.Join(path, "fleet.db"))
	}
	if err := os.MkdirAll(filepath.Dir(abs), 0o755); err != nil {
		return "", fmt.Errorf("bucket file %s: its folder cannot be made: %w; choose a path that this user may write", path, err)
	}
	return abs, nil
}

// dataSource is the URI of the file, in which every character of a path is
// itself. There is no busy timeout: retryBusy waits instead.
func dataSource(abs string) string {
	slashed := filepath.ToSlash(abs)
	if slashed[0] != '/' { // a drive letter
		slashed = "/" + slashed
	}
	u := url.URL{Scheme: "file", Path: slashed}
	return u.String() + "?" + url.Values{"_pragma": {
		"busy_timeout(0)",
		"synchronous(FULL)",
		"journal_size_limit(16777216)",
	}}.Encode()
}

// setUp makes an empty file a bucket, and checks any other. The identity that
// it returns is that of the file in use.
func setUp(db *sql.DB, abs string) (os.FileInfo, error) {
	ctx := context.Background()
	if _, err := retryBusy(ctx, func() (bool, error) { return true, setUpSchema(ctx, db) }); err != nil {
		return nil, err
	}
	mode, err := retryBusy(ctx, func() (mode string, err error) {
		return mode, db.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode)
	})
	if err != nil {
		return nil, err
	}
	if mode != "wal" {
		return nil, fmt.Errorf("its file system does not support a write-ahead log (journal mode is %q); choose a path on a local disk", mode)
	}
	return os.Stat(abs)
}

func setUpSchema(ctx context.Context, db *sql.DB) error {
	if done, err := checkSchema(ctx, db); err != nil || done {
		return err
	}
	conn, err := beginOn(ctx, db)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Another process may have been faster.
	if done, err := checkSchema(ctx, conn); err != nil || done {
		rollback(conn)
		return err
	}
	statements := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d; %s COMMIT;", applicationID, schemaVersion, schema)
	if _, err := conn.ExecContext(ctx, statements); err != nil {
		rollback(conn)
		return err
	}
	return nil
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkSchema says whether the file holds our schema (true) or nothing yet.
func checkSchema(ctx context.Context, q querier) (bool, error) {
	var id, version, tables int
	row := q.QueryRowContext(ctx, `SELECT
		(SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`)
	if err := row.Scan(&id, &version, &tables); err != nil {
		return false, err
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return false, nil
	case id != applicationID:
		return false, errors.New("it is the SQLite database of another program; choose another path")
	case version > schemaVersion:
		return false, fmt.Errorf("a newer tenure wrote it (schema %d, this program knows %d); use that version or another path", version, schemaVersion)
	}
	return true, nil
}

// advise says what to do about SQLite's refusal to open a file.
func advise(err error) error {
	switch resultCode(err) {
	case sqlite3lib.SQLITE_NOTADB:
		return fmt.Errorf("it is not an SQLite database; choose another path, or move that file away: %w", err)
	case sqlite3lib.SQLITE_CANTOPEN:
		return fmt.Errorf("it cannot be opened; choose a path that this user may write: %w", err)
	case sqlite3lib.SQLITE_READONLY, sqlite3lib.SQLITE_PERM:
		return fmt.Errorf("it cannot be written; give this user write permission for it and its folder: %w", err)
	case sqlite3lib.SQLITE_CORRUPT:
		return fmt.Errorf("it is damaged; stop every node, restore or remove it: %w", err)
	case sqlite3lib.SQLITE_FULL:
		return fmt.Errorf("its disk is full: %w", err)
	}
	return err
}
