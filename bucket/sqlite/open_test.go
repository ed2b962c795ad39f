package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/sqlite"
)

func TestPathsAreTakenLiterally(t *testing.T) {
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a#b.db", "a%20b.db", "a&b=c.db", "file:x.db", "ü 'quoted\".db"} {
		path := filepath.Join(t.TempDir(), "made", "on the way?", name)
		if runtime.GOOS == "windows" {
			t.Skip("these names are not allowed here")
		}
		b := open(t, path)
		w, err := b.Create(t.Context(), "k", []byte("x"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("not at its path: %v", err)
		}
		if o, err := open(t, path).Get(t.Context(), "k"); err != nil || o.Version != w.Version {
			t.Errorf("%s, opened again: %+v, %v", name, o, err)
		}
	}
}

func TestOpenErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database here\n", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(dir, "stranger.db")
	execute(t, stranger, `CREATE TABLE theirs (x)`)
	newer := filepath.Join(dir, "newer.db")
	open(t, newer).Close()
	execute(t, newer, `PRAGMA user_version = 99`)
	cases := map[string]string{
		"":                              "write sqlite:PATH",
		dir:                             "is a directory; name a file in it",
		text:                            "not an SQLite database",
		filepath.Join(text, "fleet.db"): "choose a path that this user may write",
		stranger:                        "database of another program",
		newer:                           "a newer tenure wrote it (schema 99, this program knows 1)",
	}
	if os.Getuid() > 0 { // the superuser may write everywhere
		readOnly := filepath.Join(dir, "read-only.db")
		open(t, readOnly).Close()
		os.Chmod(readOnly, 0o444)
		cases[readOnly] = "give this user write permission"
	}
	for path, want := range cases {
		b, err := sqlite.Open(path)
		if err == nil {
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("open %q: error %q, want one with %q", path, err, want)
		}
	}
	if content, _ := os.ReadFile(text); !strings.HasPrefix(string(content), "no database here") {
		t.Error("the stranger's file was changed")
	}
}

// execute runs a statement on the file behind the adapter's back.
func execute(t *testing.T, path, statement string) {
	t.Helper()
	if _, err := raw(t, path).Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func TestStampsOfAnotherBootAreNotCompared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	b := open(t, path)
	w, err := b.Create(t.Context(), "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := b.Get(t.Context(), "k")
	if age := o.Date.Sub(o.Modified); err != nil || age <= 0 || age > time.Minute || !w.Date.Equal(o.Modified) {
		t.Fatalf("stamps %+v, written at %v, %v", o.Stamps, w.Date, err)
	}
	execute(t, path, `UPDATE object SET origin = 'another boot'`)
	o, err = b.Get(t.Context(), "k")
	if err != nil || !o.Modified.IsZero() || o.Date.IsZero() {
		t.Errorf("stamps %+v, %v; want no Modified", o.Stamps, err)
	}
}

func TestVersionsGoOnAfterReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	seen := map[bucket.Version]bool{}
	for range 3 {
		b := open(t, path)
		w, err := b.Create(t.Context(), "k", nil)
		if err != nil || seen[w.Version] {
			t.Fatalf("version %q again, or %v", w.Version, err)
		}
		seen[w.Version] = true
		if err := b.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
}

// While another process holds the write lock, writers wait as long as their
// context lasts and readers do not wait.
func TestWaitForTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	b := open(t, path)
	if _, err := b.Create(t.Context(), "k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	other := raw(t, path)
	if _, err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := b.Create(ctx, "a", nil)
	if !errors.Is(err, bucket.ErrNotApplied) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write that never got the lock: %v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v to give up", took)
	}
	if _, err := b.Get(t.Context(), "k"); err != nil {
		t.Errorf("a read beside a writer: %v", err)
	}
	waited := make(chan error)
	go func() {
		_, err := b.Create(t.Context(), "b", nil)
		waited <- err
	}()
	if _, err := other.Exec(`COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("a write after the lock was free: %v", err)
	}
	if _, err := b.Get(t.Context(), "a"); !errors.Is(err, bucket.ErrNotExist) {
		t.Errorf("the write that was given up: %v", err)
	}
}

// Processes that open the path after its file was removed are in another world.
func TestRemovedFileIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	b := open(t, path)
	for range 2 {
		if err := os.Remove(path); err != nil {
			t.Skipf("a file in use cannot be removed here: %v", err)
		}
		if _, err := b.Create(t.Context(), "k", nil); !errors.Is(err, bucket.ErrNotApplied) || !strings.Contains(err.Error(), "restart") {
			t.Errorf("write: %v", err)
		}
		if _, err := b.Get(t.Context(), "k"); err == nil || errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("read: %v", err)
		}
		os.WriteFile(path, nil, 0o644) // another file in its place does not help
	}
}

func TestOversizedObjectIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	b := open(t, path)
	if _, err := b.Create(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	execute(t, path, `UPDATE object SET body = zeroblob(70000)`)
	if o, err := b.Get(t.Context(), "k"); err == nil {
		t.Errorf("read %d bytes", len(o.Body))
	}
}
