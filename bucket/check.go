package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKey bounds a key's length in bytes, the adapter's own prefix included: the
// smallest limit among the stores.
const MaxKey = 1024

// PageSize is the most keys of a List with limit 0 or more than this.
const PageSize = 1000

// CheckKey reports why a key cannot name an object in every store, or nil.
func CheckKey(key string) error {
	switch {
	case key == "":
		return errors.New("an object key is empty")
	case len(key) > MaxKey:
		return fmt.Errorf("object key %.40q… has %d bytes, at most %d are allowed", key, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("object key %q is not valid UTF-8", key)
	}
	for part := range strings.SplitSeq(key, "/") {
		// Stores that keep objects as files cannot hold these.
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("object key %q has a part that is empty, \".\" or \"..\"", key)
		}
	}
	if strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
		return fmt.Errorf("object key %q has a control character", key)
	}
	return nil
}

// ErrTooLarge is the failure of a Get whose object has more than MaxBody bytes:
// whatever it is, it is no record.
var ErrTooLarge = errors.New("too large for a record")

// CheckBody reports a body of more than MaxBody bytes as an ErrTooLarge.
func CheckBody(key string, size int64) error {
	if size > MaxBody {
		return fmt.Errorf("object %q has %d bytes, at most %d are allowed: %w", key, size, MaxBody, ErrTooLarge)
	}
	return nil
}

// CheckRead is what every adapter does first in Get: the key is good and the
// context has not ended.
func CheckRead(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	return ctx.Err()
}

// CheckWrite is what every adapter does first in Create and Delete. Its errors
// are ErrNotApplied: nothing has been sent.
func CheckWrite(ctx context.Context, key string, body []byte) error {
	err := CheckRead(ctx, key)
	if err == nil {
		err = CheckBody(key, int64(len(body)))
	}
	if err != nil {
		return NotApplied(err)
	}
	return nil
}

// CheckReplace is CheckWrite for Replace. An empty version must never reach a
// store, which would take it for "no condition".
func CheckReplace(ctx context.Context, key string, body []byte, v Version) error {
	if v == "" {
		return NotApplied(fmt.Errorf("replace of %q without a version", key))
	}
	return CheckWrite(ctx, key, body)
}

// NotApplied marks err, which stays visible to errors.Is and errors.As, as a
// definite failure of a write.
func NotApplied(err error) error {
	return fmt.Errorf("%w: %w", ErrNotApplied, err)
}

// PageLimit is the number of keys that a List with this limit returns at most.
func PageLimit(limit int) int {
	if limit <= 0 || limit > PageSize {
		return PageSize
	}
	return limit
}
