package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/tenure-go/tenure/core"
)

// Codes that only requests outside of any cell get.
const (
	codeNotFound   core.Code = "not-found"
	codeBadRequest core.Code = "bad-request"
)

// Problem is a problem document (RFC 9457), the body of every failure.
type Problem struct {
	Type   string        `json:"type"`
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail,omitempty"`
	Code   core.Code     `json:"code"`
	Cell   core.CellName `json:"cell,omitempty"`
	Node   core.NodeID   `json:"node,omitempty"`
	Epoch  core.Epoch    `json:"epoch,omitempty"`
	// Executed is "no" if the request certainly was not run, else "unknown".
	Executed string `json:"executed"`
}

// problemType is where a person reads what a code means.
const problemType = "https://github.com/tenure-go/tenure/blob/main/docs/errors.md#"

var meanings = map[core.Code]struct {
	status int
	title  string
}{
	core.CodeBadCellName:         {http.StatusBadRequest, "This is not a cell name"},
	core.CodeBadRecord:           {http.StatusBadGateway, "The bucket holds something that is not Tenure's"},
	core.CodeNodeUnavailable:     {http.StatusServiceUnavailable, "This node has no authority"},
	core.CodeDraining:            {http.StatusServiceUnavailable, "This node is draining"},
	core.CodeStoreUnavailable:    {http.StatusServiceUnavailable, "The bucket cannot be reached"},
	core.CodeAcquireFailed:       {http.StatusServiceUnavailable, "The cell could not be acquired"},
	core.CodeNoCapacity:          {http.StatusServiceUnavailable, "No node has room for the cell"},
	core.CodeCellOverloaded:      {http.StatusServiceUnavailable, "Too many requests wait for the cell"},
	core.CodeOwnerUnreachable:    {http.StatusServiceUnavailable, "The cell's owner cannot be reached and may be alive"},
	core.CodeAuthorityLost:       {http.StatusServiceUnavailable, "The node lost its authority over the cell"},
	core.CodeOwnershipUnverified: {http.StatusServiceUnavailable, "Ownership could not be verified after the answer was complete"},
	core.CodeActivationFailed:    {http.StatusBadGateway, "The cell could not be activated"},
	core.CodeAppUnreachable:      {http.StatusBadGateway, "The application cannot be reached"},
	core.CodePeerIncompatible:    {http.StatusBadGateway, "The cell's owner speaks another peer protocol"},
	core.CodeOwnerUnsettled:      {http.StatusBadGateway, "Two nodes in a row do not own the cell"},
	core.CodeAppBroken:           {http.StatusBadGateway, "The application failed"},
	core.CodeOwnerLost:           {http.StatusBadGateway, "The cell's owner was lost"},
	core.CodeTimeout:             {http.StatusGatewayTimeout, "No answer in time"},
	core.CodeNotMine:             {http.StatusMisdirectedRequest, "Another node owns the cell"},
	core.CodeOwned:               {http.StatusConflict, "Another node owns the cell"},
	codeNotFound:                 {http.StatusNotFound, "Nothing is here"},
	codeBadRequest:               {http.StatusBadRequest, "The request could not be read"},
}

// WriteFailure answers with the problem document of a failure. The cell may be
// empty. Times are nanoseconds.
func WriteFailure(w http.ResponseWriter, cell core.CellName, f core.Failure) {
	p := problemOf(cell, f)
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers always marshal
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(wholeSeconds(f.RetryAfter), 10))
	}
	w.WriteHeader(p.Status)
	w.Write(body) // the client may be gone
}

func problemOf(cell core.CellName, f core.Failure) Problem {
	m, ok := meanings[f.Code]
	if !ok {
		m.status, m.title = http.StatusInternalServerError, "The request failed"
	}
	executed := "no"
	if f.Ran {
		executed = "unknown"
	}
	return Problem{
		Type: problemType + string(f.Code), Title: m.title, Status: m.status, Detail: f.Detail,
		Code: f.Code, Cell: cell, Node: f.Node, Epoch: f.Epoch, Executed: executed,
	}
}

// wholeSeconds rounds up: a client that comes back earlier fails again.
func wholeSeconds(t core.Time) int64 {
	return int64((time.Duration(t) + time.Second - 1) / time.Second)
}
