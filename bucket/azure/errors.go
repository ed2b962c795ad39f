package azure

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

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

// code is the store's own name for a failure. A proxy gives none.
func code(x *exchange.Exchange) string { return x.Header.Get("x-ms-error-code") }

// writeError says what a failed write means, or leaves it ambiguous.
func writeError(kind write, x *exchange.Exchange, err error) error {
	return bucket.WithRetryAfter(judgeWrite(kind, x, short(x, err)), x.Header)
}

func judgeWrite(kind write, x *exchange.Exchange, err error) error {
	code := code(x)
	switch {
	case !x.Sent():
		return bucket.NotApplied(err)
	case x.NotCached() != nil:
		return errors.Join(x.NotCached(), err)
	case x.Status == http.StatusPreconditionFailed:
		if code != "" && code != "ConditionNotMet" && code != "TargetConditionNotMet" {
			return as(bucket.ErrRefused, err) // another condition: somebody's lock on the blob
		}
		return as(bucket.ErrConflict, err)
	case x.Status == http.StatusConflict && code == "BlobAlreadyExists":
		return as(bucket.ErrConflict, err)
	case x.Status == http.StatusConflict && refusedConflict[code]:
		return as(bucket.ErrRefused, err)
	case x.Status == http.StatusNotFound && code == "BlobNotFound":
		if kind == create {
			return fmt.Errorf("%w: it answered %q to the create of an absent object: %w", bucket.ErrBroken, code, err)
		}
		return as(bucket.ErrConflict, err)
	case x.Status == http.StatusNotFound && code == "ContainerNotFound":
		return fmt.Errorf("%w: there is no such container: %w", bucket.ErrRefused, err)
	case x.Status == http.StatusTooManyRequests && code != "":
		return as(bucket.ErrThrottled, err)
	case refused(x.Status):
		return as(bucket.ErrRefused, err)
	}
	return err // 503 ServerBusy too: it may come after a time-out inside the service
}

// refusedConflict are the 409s that say that the store will not write the blob.
var refusedConflict = map[string]bool{
	"BlobImmutableDueToPolicy": true, "BlobArchived": true, "BlobBeingRehydrated": true, "InvalidBlobType": true,
	"ContainerBeingDeleted": true, "ContainerDisabled": true, "AccountBeingCreated": true,
}

// readError says what a failed read means.
func readError(x *exchange.Exchange, err error) error {
	return bucket.WithRetryAfter(judgeRead(x, short(x, err)), x.Header)
}

func judgeRead(x *exchange.Exchange, err error) error {
	code := code(x)
	switch {
	case x.NotCached() != nil:
		return errors.Join(x.NotCached(), err)
	case x.Status == http.StatusNotFound && code == "BlobNotFound":
		return as(bucket.ErrNotExist, err)
	case x.Status == http.StatusNotFound && code == "ContainerNotFound":
		return fmt.Errorf("%w: there is no such container: %w", bucket.ErrRefused, err)
	case x.Status == http.StatusTooManyRequests, x.Status == http.StatusServiceUnavailable && code == "ServerBusy":
		return as(bucket.ErrThrottled, err)
	case refused(x.Status):
		return as(bucket.ErrRefused, err)
	}
	return err
}

func refused(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden
}

func as(kind, err error) error { return fmt.Errorf("%w: %w", kind, err) }

// short says in one line what the SDK says in many.
func short(x *exchange.Exchange, err error) error {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	if answer.ErrorCode != "" {
		text = fmt.Sprintf("%d %s", answer.StatusCode, answer.ErrorCode)
	}
	if id := x.Header.Get("x-ms-request-id"); id != "" {
		text += fmt.Sprintf(" (x-ms-request-id %s)", id)
	}
	return errors.New(text)
}
