package peer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// The headers that peers exchange; no handler and no caller sees them.
const (
	headerFrom = "Tenure-Peer-From" // the sending session
	headerTo   = "Tenure-Peer-To"   // the session that the request is meant for
	// headerNonce carries a fresh secret that a refusal repeats. The handler
	// never sees it, so no application can make its answer pass for a refusal.
	headerNonce = "Tenure-Peer-Nonce"
	// headerExpect: the Expect header is the sending peer's, not the caller's.
	headerExpect  = "Tenure-Peer-Expect"
	headerRefused = "Tenure-Peer-Refused"
)

// Refusal is why a peer's door turned a request away before any handler saw it.
type Refusal string

// The refusals. All of them say that the request was not executed.
const (
	// AnotherSession: the process at this address is not, or no longer, the
	// node that the request is meant for.
	AnotherSession Refusal = "another-session"
	// UnknownPeer: no lease publishes the sender's key under the sender's id.
	UnknownPeer Refusal = "unknown-peer"
	// PeerBusy: too many strangers are being looked up; later may help.
	PeerBusy Refusal = "peer-busy"
)

func (r Refusal) status() int {
	switch r {
	case AnotherSession:
		return http.StatusMisdirectedRequest
	case PeerBusy:
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden
}

func (r Refusal) detail() string {
	switch r {
	case AnotherSession:
		return "this process is another session than the one that the request is meant for"
	case PeerBusy:
		return "too many unknown peers are being looked up"
	}
	return "no lease publishes the presented key under the sender's node id"
}

// refuse answers for the door. The connection ends with it: a client that waits
// for "100 Continue" then keeps its body, and a stranger holds nothing here.
func refuse(w http.ResponseWriter, nonce string, why Refusal) {
	h := w.Header()
	h.Set("Connection", "close")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set(headerRefused, nonce+" "+string(why))
	if why == PeerBusy {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(why.status())
	json.NewEncoder(w).Encode(map[string]any{ // a failure means that the caller is gone
		"code": why, "status": why.status(), "title": http.StatusText(why.status()), "detail": why.detail(),
	})
}

// refusalIn finds the door's refusal of the request that carried the nonce.
func refusalIn(resp *http.Response, nonce string) (Refusal, error) {
	code, ok := strings.CutPrefix(resp.Header.Get(headerRefused), nonce+" ")
	if !ok || code == "" {
		return "", nil
	}
	why := Refusal(code)
	return why, fmt.Errorf("%s: %s", why, why.detail())
}
