package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"
)

// Identity is a process's TLS key, made anew at each start and never stored. It
// is safe for concurrent use.
type Identity struct {
	cert tls.Certificate
	key  string
}

// NewIdentity makes a fresh ECDSA P-256 key with a self-signed certificate.
// Only the key means anything: the certificate carries no name, and a validity
// that no wrong clock can miss.
func NewIdentity() (*Identity, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the peer key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280: no expiry
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, fmt.Errorf("make the peer certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back the peer certificate: %w", err)
	}
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}
	return &Identity{cert: cert, key: keyOf(leaf)}, nil
}

// Key is the SHA-256 of the SubjectPublicKeyInfo, in lower-case hex: what the
// lease publishes.
func (i *Identity) Key() string { return i.key }

// keyOf is the published form of the key that a peer proved to hold.
func keyOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// sameKey compares two published keys. An empty one matches nothing.
func sameKey(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// serverTLS lets strangers in, without a key or with any, so that the probe
// works for them; [Server] judges the key of everything else. Without tickets
// every connection proves its key anew.
func (i *Identity) serverTLS() *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{i.cert},
		ClientAuth:             tls.RequestClientCert,
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true,
	}
}

// clientTLS accepts one server key and no other.
func (i *Identity) clientTLS(key string) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{i.cert},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"http/1.1"},
		// There are no chains and no names to verify; the key itself is, below.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !sameKey(keyOf(state.PeerCertificates[0]), key) {
				return ErrWrongKey
			}
			return nil
		},
	}
}
