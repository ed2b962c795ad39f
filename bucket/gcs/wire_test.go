package gcs_test

import (
	"fmt"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/bucket/buckettest/proxy"
	"github.com/tenure-go/tenure/internal/gcsserver"
)

// inJSON and inXML are how the two APIs word a failure.
func inJSON(status int, reason string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":"as scripted","errors":[{"message":"as scripted","domain":"global","reason":%q}]}}`, status, reason)
}

func inXML(code string) string {
	return "<?xml version='1.0' encoding='UTF-8'?><Error><Code>" + code + "</Code><Message>as scripted</Message></Error>"
}

var answers = []buckettest.Answer{
	{Name: "no such object", Status: 404, Body: inXML("NoSuchKey"), Get: bucket.ErrNotExist},
	{Name: "no such object, out of a cache", Status: 404, Body: inXML("NoSuchKey"), Headers: []string{"Age", "1"}, Get: buckettest.ErrAmbiguous},
	{Name: "no such bucket, read", Status: 404, Body: inXML("NoSuchBucket"), Get: bucket.ErrRefused},
	{
		Name: "no such bucket", Status: 404, Body: inJSON(404, "notFound"),
		List: bucket.ErrRefused, Create: bucket.ErrRefused, Replace: bucket.ErrRefused,
	},
	{
		Name: "forbidden", Status: 403, Body: inJSON(403, "forbidden"),
		List: bucket.ErrRefused, Create: bucket.ErrRefused, Replace: bucket.ErrRefused, Delete: bucket.ErrRefused,
	},
	{Name: "forbidden, read", Status: 403, Body: inXML("AccessDenied"), Get: bucket.ErrRefused},
	{
		Name: "invalid", Status: 400, Body: inJSON(400, "invalid"),
		List: bucket.ErrRefused, Create: bucket.ErrRefused, Replace: bucket.ErrRefused,
	},
	{
		Name: "condition", Status: 412, Body: inJSON(412, "conditionNotMet"),
		Create: bucket.ErrConflict, Replace: bucket.ErrConflict,
	},
	{
		Name: "too fast for one object", Status: 429, Body: inJSON(429, "rateLimitExceeded"),
		List: bucket.ErrThrottled, Create: bucket.ErrThrottled, Replace: bucket.ErrThrottled, Delete: bucket.ErrThrottled,
	},
	{Name: "too fast, read", Status: 429, Body: inXML("SlowDown"), Get: bucket.ErrThrottled},
	{
		Name: "conflict", Status: 409, Body: inJSON(409, "conflict"),
		Create: buckettest.ErrAmbiguous, Replace: buckettest.ErrAmbiguous,
	},
	{
		Name: "internal", Status: 500, Body: inJSON(500, "internalError"),
		List: buckettest.ErrAmbiguous, Create: buckettest.ErrAmbiguous, Replace: buckettest.ErrAmbiguous, Delete: buckettest.ErrAmbiguous,
	},
	{
		Name: "backend", Status: 503, Body: inJSON(503, "backendError"),
		List: buckettest.ErrAmbiguous, Create: buckettest.ErrAmbiguous, Replace: buckettest.ErrAmbiguous, Delete: buckettest.ErrAmbiguous,
	},
	{
		Name: "an answer without a generation", Status: 200, Body: `{"kind":"storage#object"}`,
		Get: buckettest.ErrAmbiguous, List: buckettest.ErrAmbiguous, Create: buckettest.ErrAmbiguous, Replace: buckettest.ErrAmbiguous,
	},
}

func TestWire(t *testing.T) {
	server := gcsserver.Start(t)
	buckettest.RunWire(t, buckettest.Wire{
		Target: server.Endpoint,
		Open: func(t *testing.T, url string) bucket.Bucket {
			o := server.Options()
			o.Emulator = url
			return open(t, o)
		},
		Proxy:   []proxy.Option{proxy.ToTarget}, // the emulator goes by its name
		Answers: answers,
	})
}
