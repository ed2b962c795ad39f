package gateway

import (
	"net"
	"net/http"
	"strings"
)

// Headers between the owner, its application and the client.
const (
	headerCell      = "Tenure-Cell"
	headerEpoch     = "Tenure-Epoch"
	headerNode      = "Tenure-Node"
	forwardedPrefix = "X-Forwarded-Prefix"
)

// Headers between two nodes. They are ours, so nobody else's ever get here.
const (
	peerCell     = "Tenure-Peer-Cell"
	peerPrefix   = "Tenure-Peer-Prefix"
	peerTimeout  = "Tenure-Peer-Timeout"  // milliseconds that are left
	peerRefused  = "Tenure-Peer-Refused"  // in an answer: its code; the answer is the node's, not the cell's
	peerExecuted = "Tenure-Peer-Executed" // with peerRefused: as in the problem document
)

const (
	ours     = "Tenure-"
	oursPeer = "Tenure-Peer-"
)

// hasPrefix ignores case, since not every header key is canonical, and takes "_"
// for "-", since an application behind CGI or WSGI cannot tell them apart.
func hasPrefix(key, prefix string) bool {
	if len(key) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if k := key[i]; lower(k) != lower(prefix[i]) && (k != '_' || prefix[i] != '-') {
			return false
		}
	}
	return true
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// dropH2C removes a client's wish to go on in HTTP/2: an application that grants
// it would hand out a connection on which nothing is removed any more.
func dropH2C(h http.Header) {
	delete(h, "Http2-Settings")
	for token := range tokens(h["Upgrade"]) {
		if name, _, _ := strings.Cut(token, "/"); strings.EqualFold(name, "h2c") {
			delete(h, "Upgrade")
			return
		}
	}
}

// strip removes all keys with the prefix, and their mention in the headers that
// name others: whoever removes what Connection lists would remove ours.
func strip(h http.Header, prefix string) {
	for k := range h {
		if hasPrefix(k, prefix) {
			delete(h, k)
		}
	}
	stripTokens(h, "Connection", prefix)
	stripTokens(h, "Trailer", prefix)
}

// stripTokens removes the tokens with the prefix from a list-valued header. The
// slice is replaced, since it may belong to somebody else's header.
func stripTokens(h http.Header, key, prefix string) {
	vv := h[key]
	if len(vv) == 0 || !mentions(vv, prefix) {
		return
	}
	var kept []string
	for token := range tokens(vv) {
		if !hasPrefix(token, prefix) {
			kept = append(kept, token)
		}
	}
	if kept == nil {
		delete(h, key)
		return
	}
	h[key] = []string{strings.Join(kept, ", ")}
}

func mentions(vv []string, prefix string) bool {
	for token := range tokens(vv) {
		if hasPrefix(token, prefix) {
			return true
		}
	}
	return false
}

// tokens yields the elements of a comma-separated header.
func tokens(vv []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range vv {
			for token := range strings.SplitSeq(v, ",") {
				if token = strings.TrimSpace(token); token != "" && !yield(token) {
					return
				}
			}
		}
	}
}

// setForwarded says who asked for what, as reverse proxies do. A peer that
// forwarded the request has said so already. X-Forwarded-For is appended to:
// only its last element is known to be true.
func (t target) setForwarded(h http.Header, in *http.Request) {
	if t.forwarded {
		for _, k := range [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			if vv, ok := in.Header[k]; ok {
				h[k] = vv
			}
		}
	} else {
		setXForwarded(h, in)
	}
	delete(h, forwardedPrefix)
	if t.prefix != "" {
		h[forwardedPrefix] = []string{t.prefix}
	}
}

func setXForwarded(h http.Header, in *http.Request) {
	delete(h, "Forwarded")
	for k := range h {
		if strings.IndexByte(k, '_') >= 0 && hasPrefix(k, "X-Forwarded-") {
			delete(h, k)
		}
	}
	client, _, err := net.SplitHostPort(in.RemoteAddr)
	if prior := in.Header["X-Forwarded-For"]; err == nil && len(prior) > 0 {
		client = strings.Join(prior, ", ") + ", " + client
	}
	if err == nil {
		h["X-Forwarded-For"] = []string{client}
	} else {
		delete(h, "X-Forwarded-For")
	}
	h["X-Forwarded-Host"] = []string{in.Host}
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	h["X-Forwarded-Proto"] = []string{proto}
}
