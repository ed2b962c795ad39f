package gcs

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tenure-go/tenure/bucket"
)

// problem is what the store says of a failure. reason is its own code: of the
// JSON API, or of the XML API; empty if the answer is not the store's, or an
// emulator's.
type problem struct{ reason, message string }

func (a answer) problem() problem {
	var j struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	if json.Unmarshal(a.body, &j) == nil && len(j.Error.Errors) > 0 {
		return problem{j.Error.Errors[0].Reason, j.Error.Message}
	}
	var x struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}
	if xml.Unmarshal(a.body, &x) == nil {
		return problem{x.Code, x.Message}
	}
	text, _, _ := strings.Cut(strings.TrimSpace(string(a.body)), "\n")
	return problem{message: fmt.Sprintf("%.100s", text)}
}

// failed is the answer as an error, in one line.
func (a answer) failed(kind error) error {
	p := a.problem()
	text := fmt.Sprintf("%d %s", a.Status, p.reason)
	if p.reason == "" {
		text = fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))
	}
	if p.message != "" {
		text += fmt.Sprintf(": %s", p.message)
	}
	if id := a.Header.Get("X-Guploader-Uploadid"); id != "" {
		text += fmt.Sprintf(" (x-guploader-uploadid %s)", id)
	}
	err := errors.New(text)
	if kind != nil {
		err = fmt.Errorf("%w: %s", kind, text)
	}
	return bucket.WithRetryAfter(err, a.Header)
}

// writeError says what the answer to a write means; nil: it was applied.
func (a answer) writeError() error {
	if err := a.NotCached(); err != nil {
		return errors.Join(err, a.failed(nil))
	}
	if a.Status/100 == 2 {
		return nil
	}
	switch reason := a.problem().reason; {
	case a.Status == http.StatusPreconditionFailed:
		return a.failed(bucket.ErrConflict)
	case throttled(reason):
		return a.failed(bucket.ErrThrottled)
	case a.Status == http.StatusNotFound && reason == "notFound":
		// An insert finds no object missing, with or without a condition.
		return fmt.Errorf("%w: there is no such bucket: %w", bucket.ErrRefused, a.failed(nil))
	case refused(a.Status):
		return a.failed(bucket.ErrRefused)
	}
	return a.failed(nil)
}

// errUnexplained404 does not say what is missing.
var errUnexplained404 = errors.New("404 without a code")

// notFoundHere judges the 404 of a read by the XML API.
func (a answer) notFoundHere() error {
	if a.Status != http.StatusNotFound || a.NotCached() != nil {
		return nil
	}
	switch a.problem().reason {
	case "NoSuchKey":
		return a.failed(bucket.ErrNotExist)
	case "NoSuchBucket":
		return fmt.Errorf("%w: there is no such bucket: %w", bucket.ErrRefused, a.failed(nil))
	}
	return errUnexplained404
}

// readError says what the answer to a read or a list means; nil: it is good.
func (a answer) readError() error {
	if err := a.NotCached(); err != nil {
		return errors.Join(err, a.failed(nil))
	}
	if a.Status == http.StatusOK {
		return nil
	}
	switch reason := a.problem().reason; {
	case a.Status == http.StatusTooManyRequests || throttled(reason):
		return a.failed(bucket.ErrThrottled)
	case a.Status == http.StatusNotFound && reason == "notFound":
		return fmt.Errorf("%w: there is no such bucket: %w", bucket.ErrRefused, a.failed(nil))
	case refused(a.Status):
		return a.failed(bucket.ErrRefused)
	}
	return a.failed(nil)
}

// throttled says that the store rejected the request to shed load. A bare 429
// may come from a proxy after the fact.
func throttled(reason string) bool {
	return reason == "rateLimitExceeded" || reason == "userRateLimitExceeded" || reason == "SlowDown"
}

func refused(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden
}
