package azure_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/azure"
	"github.com/tenure-go/tenure/bucket/buckettest"
	"github.com/tenure-go/tenure/internal/azserver"
)

// says is an answer as the service words it.
func says(status int, code string) buckettest.Answer {
	return buckettest.Answer{
		Name: code, Status: status,
		Body:    "\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>" + code + "</Code><Message>as scripted</Message></Error>",
		Headers: []string{"x-ms-error-code", code, "Content-Type", "application/xml", "x-ms-request-id", "id-of-the-request"},
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
	absent := says(404, "BlobNotFound")
	absent.Get, absent.Create, absent.Replace = bucket.ErrNotExist, bucket.ErrBroken, bucket.ErrConflict
	cached := says(404, "BlobNotFound")
	cached.Name, cached.Headers = "BlobNotFound out of a cache", append(cached.Headers, "Age", "1")
	exists := says(409, "BlobAlreadyExists")
	exists.Create = bucket.ErrConflict
	condition := says(412, "ConditionNotMet")
	condition.Create, condition.Replace = bucket.ErrConflict, bucket.ErrConflict
	return []buckettest.Answer{
		absent, reads(cached, buckettest.ErrAmbiguous), exists, condition,
		writes(reads(says(404, "ContainerNotFound"), bucket.ErrRefused), bucket.ErrRefused),
		writes(reads(says(404, "ResourceNotFound"), buckettest.ErrAmbiguous), buckettest.ErrAmbiguous),
		writes(reads(says(403, "AuthorizationPermissionMismatch"), bucket.ErrRefused), bucket.ErrRefused),
		writes(reads(says(400, "InvalidHeaderValue"), bucket.ErrRefused), bucket.ErrRefused),
		writes(says(409, "BlobImmutableDueToPolicy"), bucket.ErrRefused),
		writes(says(409, "ContainerBeingDeleted"), bucket.ErrRefused),
		writes(says(409, "PendingCopyOperation"), buckettest.ErrAmbiguous),
		writes(says(412, "LeaseIdMissing"), bucket.ErrRefused),
		writes(reads(says(429, "TooManyRequests"), bucket.ErrThrottled), bucket.ErrThrottled),
		writes(reads(says(503, "ServerBusy"), bucket.ErrThrottled), buckettest.ErrAmbiguous),
		writes(reads(says(500, "OperationTimedOut"), buckettest.ErrAmbiguous), buckettest.ErrAmbiguous),
		writes(reads(says(500, "InternalError"), buckettest.ErrAmbiguous), buckettest.ErrAmbiguous),
	}
}

func TestWire(t *testing.T) {
	server := azserver.Start(t)
	buckettest.RunWire(t, buckettest.Wire{
		Target: server.Endpoint,
		Open: func(t *testing.T, url string) bucket.Bucket {
			o := server.Options()
			o.Endpoint = strings.Replace(o.Endpoint, server.Endpoint, url, 1)
			return open(t, o)
		},
		Answers: answers(),
	})
}

// An error is one line, and has what Microsoft's support asks for.
func TestErrorText(t *testing.T) {
	o := azserver.Start(t).Options()
	o.Container = "typo"
	_, err := open(t, o).Get(t.Context(), "k")
	if !errors.Is(err, bucket.ErrRefused) {
		t.Errorf("no such container: %v", err)
	}
	for _, want := range []string{"az://typo/k", "no such container", "404 ContainerNotFound", "x-ms-request-id"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has several lines", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, name := range []string{"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_CONNECTION_STRING"} {
		t.Setenv(name, "")
	}
	for want, o := range map[string]azure.Options{
		"no name":               {Account: "a"},
		"which storage account": {Container: "fleet"},
		"not a URL":             {Container: "fleet", Endpoint: "a.blob.core.windows.net"},
		"needs the account":     {Container: "fleet", Endpoint: "https://a.example", Key: "a2V5"},
		"account key":           {Container: "fleet", Account: "a", Key: "not base64"},
		"prefix":                {Container: "fleet", Account: "a", Key: "a2V5", Prefix: "a//b"},
		"secondary endpoint":    {Container: "fleet", Account: "a", Key: "a2V5", Endpoint: "https://a-secondary.blob.core.windows.net"},
		"connection string":     {Container: "fleet", ConnectionString: "AccountName=a"},
	} {
		if _, err := azure.Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v does not mention %q", o, err, want)
		}
	}
}

// What is not given comes from the environment.
func TestEnvironment(t *testing.T) {
	server := azserver.Start(t)
	o := server.Options()
	t.Setenv("AZURE_STORAGE_ACCOUNT", "")
	t.Setenv("AZURE_STORAGE_KEY", "")
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING",
		"DefaultEndpointsProtocol=http;AccountName="+o.Account+";AccountKey="+o.Key+";BlobEndpoint="+o.Endpoint+";")
	if _, err := open(t, azure.Options{Container: "fleet"}).Create(t.Context(), "by-connection-string", nil); err != nil {
		t.Error(err)
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", o.Account)
	t.Setenv("AZURE_STORAGE_KEY", o.Key)
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "not for an endpoint of one's own")
	if _, err := open(t, azure.Options{Container: "fleet", Endpoint: o.Endpoint}).Create(t.Context(), "by-key", nil); err != nil {
		t.Error(err)
	}
}

// On a clock an hour off, the first answer sets the client right.
func TestClockSkew(t *testing.T) {
	storeNow := time.Now().Add(time.Hour)
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Date", storeNow.UTC().Format(http.TimeFormat))
		signed, err := http.ParseTime(r.Header.Get("x-ms-date"))
		if err != nil || storeNow.Sub(signed).Abs() > 15*time.Minute {
			w.Header().Set("x-ms-error-code", "AuthenticationFailed")
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("ETag", `"v"`)
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	b := open(t, azure.Options{Container: "fleet", Account: "a", Key: "a2V5", Endpoint: server.URL})
	for i, want := range []int64{2, 3} {
		if _, err := b.Create(t.Context(), "k", []byte("x")); err != nil || requests.Load() != want {
			t.Errorf("create %d: %v after %d requests, want %d", i, err, requests.Load(), want)
		}
	}
}

// A corrected date is signed as it should be.
func TestCorrectedDateIsSigned(t *testing.T) {
	b := open(t, azserver.Start(t).Options())
	b.SetAhead(time.Minute)
	if err := bucket.Test(t.Context(), b, "probe/n-1", nil); err != nil {
		t.Error(err)
	}
}
