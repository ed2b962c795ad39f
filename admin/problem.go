package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tenure-go/tenure/core"
)

// problemDoc is a problem document (RFC 9457).
type problemDoc struct {
	Type   string      `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail,omitempty"`
	Code   core.Code   `json:"code"`
	Node   core.NodeID `json:"node,omitempty"`
	Epoch  core.Epoch  `json:"epoch,omitempty"`

	retryAfter time.Duration
}

// problemType is where a person reads what a code means.
const problemType = "https://github.com/tenure-go/tenure/blob/main/docs/errors.md#"

func problem(status int, code core.Code, detail string) problemDoc {
	return problemDoc{Type: problemType + string(code), Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

func writeProblem(w http.ResponseWriter, p problemDoc) {
	if p.retryAfter > 0 { // rounded up: earlier fails again
		s := int64((p.retryAfter + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

// statusOf is the status of a failure of the core.
func statusOf(code core.Code) int {
	switch code {
	case core.CodeBadCellName:
		return http.StatusBadRequest
	case core.CodeOwned, core.CodeNotMine:
		return http.StatusConflict
	case core.CodeTimeout:
		return http.StatusGatewayTimeout
	case core.CodeBadRecord, core.CodePeerIncompatible, core.CodeOwnerUnsettled, core.CodeOwnerLost,
		core.CodeActivationFailed, core.CodeAppUnreachable, core.CodeAppBroken:
		return http.StatusBadGateway
	default:
		return http.StatusServiceUnavailable
	}
}
