package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard keeps everybody but the operator out.
type guard struct {
	asks  bool
	token [sha256.Size]byte
	cross *http.CrossOriginProtection
}

func newGuard(token string) guard {
	return guard{asks: token != "", token: sha256.Sum256([]byte(token)), cross: http.NewCrossOriginProtection()}
}

// refuse returns the answer for a request that must not pass, and true.
func (g *guard) refuse(r *http.Request) (problemDoc, bool) {
	switch {
	case g.asks && !g.authorized(r):
		return problem(http.StatusUnauthorized, "unauthorized", "the admin token is asked for: Authorization: Bearer TOKEN"), true
	case !g.asks && !local(r):
		return problem(http.StatusForbidden, "forbidden", "without an admin token only loopback names are answered to"), true
	}
	// A page of another site can make a browser send a POST, also one that
	// knows no token but reaches a listener without one.
	if err := g.cross.Check(r); err != nil {
		return problem(http.StatusForbidden, "forbidden", err.Error()), true
	}
	return problemDoc{}, false
}

// authorized compares digests, so that the time taken says nothing, not even
// about the length.
func (g *guard) authorized(r *http.Request) bool {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// local reports whether the request names a loopback host. A name that a
// stranger's DNS points here (rebinding) is none. A Unix socket is out of a
// browser's reach, whatever the name.
func local(r *http.Request) bool {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
