package s3_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/internal/s3server"
)

// answer is how S3 words a failure.
func answer(status int, code string) buckettest.Answer {
	return buckettest.Answer{
		Name: fmt.Sprintf("%d %s", status, code), Status: status,
		Body:    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + code + "</Code><Message>as scripted</Message></Error>",
		Headers: []string{"Content-Type", "application/xml"},
	}
}

// writes wants the same of a create, a replace and a delete.
func writes(a buckettest.Answer, want error) buckettest.Answer {
	a.Create, a.Replace, a.Delete = want, want, want
	return a
}

// reads wants the same of a get and a list.
func reads(a buckettest.Answer, want error) buckettest.Answer {
	a.Get, a.List = want, want
	return a
}

func answers() []buckettest.Answer {
	absent := answer(404, "NoSuchKey")
	absent.Get, absent.Create, absent.Replace = bucket.ErrNotExist, bucket.ErrBroken, bucket.ErrConflict
	cached := answer(404, "NoSuchKey")
	cached.Name, cached.Headers = "NoSuchKey out of a cache", append(cached.Headers, "Age", "1")
	condition := answer(412, "PreconditionFailed")
	condition.Create, condition.Replace = bucket.ErrConflict, bucket.ErrConflict
	ambiguous := buckettest.ErrAmbiguous
	all := []buckettest.Answer{
		absent, reads(cached, ambiguous), condition,
		writes(reads(answer(404, "NoSuchBucket"), bucket.ErrRefused), bucket.ErrRefused),
		writes(answer(409, "ConditionalRequestConflict"), bucket.ErrContended),
		writes(answer(409, "OperationAborted"), ambiguous),
		writes(reads(answer(400, "InvalidRequest"), bucket.ErrRefused), bucket.ErrRefused),
		writes(answer(400, "RequestTimeout"), bucket.ErrNotApplied), // the body did not arrive
		writes(reads(answer(403, "AccessDenied"), bucket.ErrRefused), bucket.ErrRefused),
		writes(reads(answer(403, "SignatureDoesNotMatch"), bucket.ErrRefused), bucket.ErrRefused),
		reads(answer(301, "PermanentRedirect"), bucket.ErrRefused), // another region
		writes(reads(answer(429, "TooManyRequests"), bucket.ErrThrottled), bucket.ErrThrottled),
		writes(reads(answer(503, "SlowDown"), bucket.ErrThrottled), bucket.ErrThrottled),
		writes(reads(answer(503, "ServiceUnavailable"), ambiguous), ambiguous),
		writes(reads(answer(500, "InternalError"), ambiguous), ambiguous),
		writes(answer(501, "NotImplemented"), bucket.ErrBroken), // "header If-None-Match not implemented"
	}
	noETag := buckettest.Answer{Name: "an empty ETag", Status: 200, Headers: []string{"ETag", `""`}, Get: ambiguous, Create: ambiguous, Replace: ambiguous}
	return append(all, noETag)
}

func wire(t *testing.T, server *s3server.Server) {
	o := server.Options()
	buckettest.RunWire(t, buckettest.Wire{
		Target: server.Endpoint,
		Open: func(t *testing.T, url string) bucket.Bucket {
			o := o
			o.Endpoint = url
			return open(t, o)
		},
		Answers: answers(),
	})
}

func TestWireFake(t *testing.T)      { wire(t, s3server.StartFake(t)) }
func TestWireVersitygw(t *testing.T) { wire(t, s3server.Start(t)) }
func TestWireMinIO(t *testing.T)     { wire(t, s3server.StartMinIO(t)) }

// A typing error in the bucket's name is said to be one.
func TestNoSuchBucket(t *testing.T) {
	for name, server := range map[string]*s3server.Server{"versitygw": s3server.Start(t), "gofakes3": s3server.StartFake(t)} {
		o := server.Options()
		o.Bucket = "typo"
		err := bucket.Test(t.Context(), open(t, o), "probe/n-1", nil)
		if err == nil || !strings.Contains(err.Error(), "there is no such bucket") || !strings.Contains(err.Error(), "the name of the bucket") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
