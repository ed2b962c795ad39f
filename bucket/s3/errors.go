package s3

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/internal/exchange"
)

// write is a kind of write.
type write string

const (
	create  write = "create"
	replace write = "replace"
	remove  write = "delete"
)

// writeError says what a failed write means, or leaves it ambiguous. It goes by
// the status and the error code together: a proxy can make up a status.
func writeError(kind write, x *exchange.Exchange, err error) error {
	return bucket.WithRetryAfter(judgeWrite(kind, x, err), x.Header)
}

func judgeWrite(kind write, x *exchange.Exchange, err error) error {
	code := errorCode(err)
	switch {
	case !x.Sent():
		return bucket.NotApplied(err)
	case x.NotCached() != nil:
		return errors.Join(x.NotCached(), err)
	case x.Status == http.StatusPreconditionFailed:
		return as(bucket.ErrConflict, err)
	case x.Status == http.StatusNotFound && code == "NoSuchKey":
		if kind == create {
			return fmt.Errorf("%w: it answered %q to the create of an absent object: %w", bucket.ErrBroken, code, err)
		}
		return as(bucket.ErrConflict, err)
	case x.Status == http.StatusNotFound && code == "NoSuchBucket":
		return noSuchBucket(err)
	case x.Status == http.StatusConflict && code == "ConditionalRequestConflict":
		return as(bucket.ErrContended, err)
	case throttled(code):
		return as(bucket.ErrThrottled, err)
	case x.Status == http.StatusNotImplemented:
		return fmt.Errorf("%w: it does not implement conditional writes: %w", bucket.ErrBroken, err)
	case code == "RequestTimeout" && x.Status == http.StatusBadRequest:
		return as(bucket.ErrNotApplied, err) // the body did not arrive in time
	case refused(x.Status):
		return as(bucket.ErrRefused, err)
	}
	return err
}

// readError says what a failed read means.
func readError(x *exchange.Exchange, err error) error {
	return bucket.WithRetryAfter(judgeRead(x, err), x.Header)
}

func judgeRead(x *exchange.Exchange, err error) error {
	code := errorCode(err)
	switch {
	case x.NotCached() != nil:
		return errors.Join(x.NotCached(), err)
	case x.Status == http.StatusNotFound && code == "NoSuchKey":
		return as(bucket.ErrNotExist, err)
	case x.Status == http.StatusNotFound && code == "NoSuchBucket":
		return noSuchBucket(err)
	case throttled(code):
		return as(bucket.ErrThrottled, err)
	case refused(x.Status) && code != "RequestTimeout":
		return as(bucket.ErrRefused, err)
	case x.Status == http.StatusMovedPermanently && code == "PermanentRedirect":
		return fmt.Errorf("%w: the bucket is in another region or at another endpoint: %w", bucket.ErrRefused, err)
	}
	return err
}

func noSuchBucket(err error) error {
	return fmt.Errorf("%w: there is no such bucket: %w", bucket.ErrRefused, err)
}

// throttled says that the store rejected the request to shed load. Only these
// codes promise so; a bare 503 or 429 may come from a proxy after the fact.
func throttled(code string) bool { return code == "SlowDown" || code == "TooManyRequests" }

func refused(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden
}

func as(kind, err error) error { return fmt.Errorf("%w: %w", kind, err) }

// errorCode is the store's own code for the error, empty if it gave none.
func errorCode(err error) string {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return ""
	}
	code := api.ErrorCode()
	if message := api.ErrorMessage(); strings.ReplaceAll(message, " ", "") == code && message != code {
		return "" // the SDK makes this up from the status if the body has no code
	}
	return code
}
