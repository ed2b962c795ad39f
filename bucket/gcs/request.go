package gcs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/internal/exchange"
)

// maxAnswer bounds an answer that is no object: a full page of the longest
// names fits.
const maxAnswer = 4 << 20

type request struct {
	method, url string
	kind        string // Content-Type
	body        []byte
	limit       int64 // most bytes of an answer
}

// answer is what came back, and what is known if nothing did.
type answer struct {
	*exchange.Exchange
	body []byte
}

// ask sends a request once. Its error says that there was no whole answer.
func (b *Bucket) ask(ctx context.Context, r request) (answer, error) {
	watched, x := exchange.Watch(ctx)
	a := answer{Exchange: x}
	hr, err := http.NewRequestWithContext(watched, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return a, err
	}
	if r.kind != "" {
		hr.Header.Set("Content-Type", r.kind)
	}
	if err := b.tokens.authorize(ctx, hr); err != nil {
		return a, err
	}
	resp, err := b.http.Do(hr)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if a.Status == http.StatusUnauthorized {
		b.tokens.forget()
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, r.limit+1))
	if err == nil && int64(len(a.body)) > r.limit {
		err = fmt.Errorf("the answer has more than %d bytes: %w", r.limit, bucket.ErrTooLarge)
	}
	return a, err
}

// multipartBody is an upload of an object's name, its no-store and its body.
func multipartBody(name string, body []byte) (kind string, upload []byte) {
	boundary := rand.Text() // no record can hold it but by chance
	meta, _ := json.Marshal(map[string]string{"name": name, "cacheControl": "no-store", "contentType": "application/json"})
	var w bytes.Buffer
	fmt.Fprintf(&w, "--%s\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n%s\r\n", boundary, meta)
	fmt.Fprintf(&w, "--%s\r\nContent-Type: application/json\r\n\r\n", boundary)
	w.Write(body)
	fmt.Fprintf(&w, "\r\n--%s--\r\n", boundary)
	return "multipart/related; boundary=" + boundary, w.Bytes()
}

// object is what a good answer to a read says. Body, generation and time come in
// one answer, and the checksum proves that the body is this generation's.
func (a answer) object() (bucket.Object, error) {
	o := bucket.Object{Body: a.body, Version: bucket.Version(a.Header.Get("X-Goog-Generation"))}
	o.Date, o.Modified = a.Date(), a.Modified()
	if o.Version == "" {
		return o, errors.New("the answer has no x-goog-generation")
	}
	return o, a.verify()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// verify compares the body with the checksum that the store has for it.
func (a answer) verify() error {
	for part := range strings.SplitSeq(strings.Join(a.Header.Values("X-Goog-Hash"), ","), ",") {
		sum, ok := strings.CutPrefix(strings.TrimSpace(part), "crc32c=")
		if !ok {
			continue
		}
		n := crc32.Checksum(a.body, castagnoli)
		if mine := []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}; sum != base64.StdEncoding.EncodeToString(mine) {
			return fmt.Errorf("the body does not match its checksum: a torn read: %w", errMeanwhile)
		}
	}
	return nil
}
