//go:build unix

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// answer is what came of one request.
type answer struct {
	method, via, cell string
	start, end        time.Time // just before it was sent, and when it was complete

	err    error // there was no answer
	status int
	node   string
	epoch  uint64
	count  int64 // of the demo's counter; -1 if the answer has none

	contentType, retryAfter string
	problem                 problem
	body                    string

	takeover time.Duration // of a fleet with another TTL than most
}

// problem is the body of a failure, as docs/errors.md has it.
type problem struct {
	Type, Title, Detail string
	Status              int
	Code, Cell, Node    string
	Epoch               uint64
	Executed            string
}

func (a answer) String() string {
	s := fmt.Sprintf("%s %s via %s, %v: ", a.method, a.cell, a.via, a.end.Sub(a.start).Round(time.Millisecond))
	switch {
	case a.err != nil:
		return s + a.err.Error()
	case a.ok():
		return s + fmt.Sprintf("%d by %s at epoch %d, count %d", a.status, a.node, a.epoch, a.count)
	}
	return s + fmt.Sprintf("%d %s", a.status, a.body)
}

func (a answer) ok() bool { return a.err == nil && a.status/100 == 2 }

// client keeps its connections, as browsers and services do.
type client struct{ http http.Client }

func newClient(patience time.Duration) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	return &client{http.Client{Transport: transport, Timeout: patience}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// do sends one request to a cell, through the node at that address.
func (c *client) do(ctx context.Context, method, via, cell, rest string) answer {
	a := answer{method: method, via: via, cell: cell, count: -1}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+via+"/cells/"+cell+rest, nil)
	if err != nil {
		a.err = err
		return a
	}
	a.start = time.Now()
	resp, err := c.http.Do(r)
	if err == nil {
		defer resp.Body.Close()
		err = a.read(resp)
	}
	a.err, a.end = err, time.Now()
	return a
}

func (a *answer) read(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	a.body, a.status = string(body), resp.StatusCode
	a.node = resp.Header.Get("Tenure-Node")
	a.epoch, _ = strconv.ParseUint(resp.Header.Get("Tenure-Epoch"), 10, 64)
	a.contentType, a.retryAfter = resp.Header.Get("Content-Type"), resp.Header.Get("Retry-After")
	if a.status/100 != 2 {
		_ = json.Unmarshal(body, &a.problem) // judged by explained
		return nil
	}
	var demo struct {
		Cell, Node string
		Epoch      uint64
		Count      *int64
	}
	if json.Unmarshal(body, &demo) == nil && demo.Count != nil {
		a.count = *demo.Count
	}
	return nil
}

// request is one request with a client of its own.
func request(t *testing.T, method, via, cell, rest string) answer {
	t.Helper()
	c := newClient(patience)
	defer c.close()
	return c.do(t.Context(), method, via, cell, rest)
}

// codes are the failures that a client may meet (docs/errors.md): their status,
// and whether they always leave open if the request was run.
var codes = map[string]struct {
	status  int
	unknown bool
}{
	"bad-cell-name":        {400, false},
	"bad-record":           {502, false},
	"node-unavailable":     {503, false},
	"draining":             {503, false},
	"store-unavailable":    {503, false},
	"acquire-failed":       {503, false},
	"no-capacity":          {503, false},
	"cell-overloaded":      {503, false},
	"owner-unreachable":    {503, false},
	"authority-lost":       {503, true},
	"ownership-unverified": {503, true},
	"activation-failed":    {502, false},
	"app-unreachable":      {502, false},
	"peer-incompatible":    {502, false},
	"owner-unsettled":      {502, false},
	"app-broken":           {502, true},
	"owner-lost":           {502, true},
	"timeout":              {504, false},
}

// explained says what is wrong with an answer that is neither a cell's nor a
// good problem document.
func (a answer) explained() error {
	if a.err != nil {
		return fmt.Errorf("no answer: %w", a.err)
	}
	if a.ok() {
		if a.node == "" || a.epoch == 0 {
			return fmt.Errorf("an answer that does not say its owner")
		}
		return nil
	}
	p := a.problem
	code, known := codes[p.Code]
	media, _, _ := mime.ParseMediaType(a.contentType)
	switch {
	case media != "application/problem+json":
		return fmt.Errorf("a failure of type %q", a.contentType)
	case !known:
		return fmt.Errorf("code %q is not known", p.Code)
	case a.status != code.status || p.Status != code.status:
		return fmt.Errorf("%s has status %d, and %d in the document; want %d", p.Code, a.status, p.Status, code.status)
	case p.Executed != "no" && p.Executed != "unknown" || code.unknown && p.Executed == "no":
		return fmt.Errorf("%s has executed %q", p.Code, p.Executed)
	case p.Type == "" || p.Title == "":
		return fmt.Errorf("%s has no type or title", p.Code)
	case p.Cell != "" && p.Cell != a.cell:
		return fmt.Errorf("%s is about cell %q", p.Code, p.Cell)
	}
	return a.checkRetryAfter()
}

// checkRetryAfter: for an owner that cannot be reached it is known when to come
// back, in whole seconds.
func (a answer) checkRetryAfter() error {
	if a.retryAfter == "" && a.problem.Code != "owner-unreachable" {
		return nil
	}
	n, err := strconv.Atoi(a.retryAfter)
	if err != nil || n < 1 || time.Duration(n)*time.Second > cmp.Or(a.takeover, takeover)+time.Second {
		return fmt.Errorf("%s has Retry-After %q", a.problem.Code, a.retryAfter)
	}
	return nil
}

// comeBack is when the answer's Retry-After is over.
func (a answer) comeBack() time.Time {
	n, _ := strconv.Atoi(a.retryAfter)
	return a.end.Add(time.Duration(n) * time.Second)
}

// rawRequest sends a request target as it is: no client would.
func rawRequest(t *testing.T, via, target string) answer {
	t.Helper()
	a := answer{method: "GET", via: via, cell: target, count: -1, start: time.Now()}
	conn, err := net.DialTimeout("tcp", via, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: tenure.test\r\nConnection: close\r\n\r\n", target)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", target, err)
	}
	defer resp.Body.Close()
	if err := a.read(resp); err != nil {
		t.Fatalf("%q: %v", target, err)
	}
	a.end = time.Now()
	return a
}

// status is what an operator's address answers; 0 if nothing.
func (n *node) adminStatus(path string) int { return adminStatus(n.ready.Admin, path) }

func adminStatus(addr, path string) int {
	c := newClient(2 * time.Second)
	defer c.close()
	resp, err := c.http.Get("http://" + addr + path)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
