package s3

import (
	"crypto/md5"
	"fmt"
	"net/http"
	"regexp"
	"sync/atomic"

	"github.com/tenure-go/tenure/bucket"
)

// etags learns from our own writes whether the store derives ETags from bodies.
// Where it does, a body that does not match its ETag is a torn read.
type etags struct{ rule atomic.Int32 }

const (
	unknown = iota
	derived // every write so far had its body's MD5
	opaque  // some write did not; final
)

var looksLikeMD5 = regexp.MustCompile(`^"[0-9a-f]{32}"$`)

// learn takes note of an applied write.
func (e *etags) learn(body []byte, v bucket.Version, header http.Header) {
	if encrypted(header) {
		return
	}
	if v == md5ETag(body) {
		e.rule.CompareAndSwap(unknown, derived)
	} else {
		e.rule.Store(opaque)
	}
}

// verify reports a body that does not match its ETag.
func (e *etags) verify(body []byte, v bucket.Version, header http.Header) error {
	if !e.fromBodies() || encrypted(header) || !looksLikeMD5.MatchString(string(v)) || v == md5ETag(body) {
		return nil
	}
	return errTorn
}

func (e *etags) fromBodies() bool { return e.rule.Load() == derived }

// encrypted says that the ETag looks like an MD5 of the body and is none: the
// object is under KMS or under a customer's key.
func encrypted(header http.Header) bool {
	sse := header.Get("X-Amz-Server-Side-Encryption")
	return sse != "" && sse != "AES256" || header.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm") != ""
}

func md5ETag(body []byte) bucket.Version {
	return bucket.Version(fmt.Sprintf(`"%x"`, md5.Sum(body)))
}
