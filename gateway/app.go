package gateway

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tenure-go/tenure/core"
)

// App passes requests to an application at an address. Requests that reach it
// through a [Gateway] must carry the context that they were given; wrapping is
// allowed.
type App struct {
	proxy     httputil.ReverseProxy
	transport *http.Transport
	host      string
}

const (
	// appIdle is shorter than the time after which common application servers
	// close a connection: a request that meets the close cannot be sent again.
	appIdle     = 1500 * time.Millisecond
	appMaxIdle  = 256
	appDial     = 5 * time.Second
	appContinue = time.Second

	// flushAfter is how long a piece of an answer may wait for the next one. An
	// answer of unknown length, and an event stream, never waits; with a known
	// one, most answers are complete before that and go out in one write.
	flushAfter = 10 * time.Millisecond
)

// NewApp makes an App of http://host:port or unix:PATH. Nothing is connected.
func NewApp(target string) (*App, error) {
	network, addr, host, err := parseApp(target)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: appDial}
	dial := countDials(dialer.DialContext)
	if network == "unix" {
		dial = fixed(dial, network, addr)
	}
	a := &App{host: host}
	a.transport = &http.Transport{
		DialContext:           dial,
		DisableCompression:    true,
		MaxIdleConns:          appMaxIdle,
		MaxIdleConnsPerHost:   appMaxIdle,
		IdleConnTimeout:       appIdle,
		ExpectContinueTimeout: appContinue,
	}
	a.proxy = httputil.ReverseProxy{
		Rewrite:        a.rewrite,
		Transport:      a,
		FlushInterval:  flushAfter,
		BufferPool:     buffers{},
		ErrorLog:       silent,
		ModifyResponse: cleanUpgrade,
		ErrorHandler:   a.failed,
	}
	return a, nil
}

func parseApp(target string) (network, addr, host string, err error) {
	if path, ok := strings.CutPrefix(target, "unix:"); ok {
		if path == "" {
			return "", "", "", fmt.Errorf("application %q: unix: needs a path", target)
		}
		return "unix", path, "localhost", nil
	}
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.Hostname() == "" {
		return "", "", "", fmt.Errorf("application %q: must be http://host:port or unix:PATH", target)
	}
	if strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
		return "", "", "", fmt.Errorf("application %q: only a host and a port are allowed", target)
	}
	return "tcp", u.Host, u.Host, nil
}

func fixed(dial dialFunc, network, addr string) dialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, network, addr) }
}

// Close closes the connections that are idle.
func (a *App) Close() { a.transport.CloseIdleConnections() }

// ServeHTTP passes one request on.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.proxy.ServeHTTP(w, r) }

// rewrite makes the request that the application gets. One that a gateway did
// not prepare yet, because nothing in this process needed it, is prepared here.
func (a *App) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	out.URL.RawQuery = in.URL.RawQuery // the application judges it
	if p := passageOf(in.Context()); p != nil {
		p.rewrite(in, out)
	}
	out.URL.Scheme, out.URL.Host = "http", a.host
	out.Proto, out.ProtoMajor, out.ProtoMinor = "HTTP/1.1", 1, 1
}

// rewrite prepares out, unless in was prepared already.
func (p *passage) rewrite(in, out *http.Request) {
	if p.prepared {
		for _, k := range [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			if vv, ok := in.Header[k]; ok { // ReverseProxy takes it for the client's claim
				out.Header[k] = vv
			}
		}
		out.Trailer = in.Trailer // which the upload fills in
		return
	}
	p.to.url(out.URL, p.in.URL)
	p.to.opaque(out.URL)
	p.identify(out.Header)
	p.to.setForwarded(out.Header, p.in)
	p.declareTrailer(out)
}

// RoundTrip sends a request to the application, once.
func (a *App) RoundTrip(req *http.Request) (*http.Response, error) {
	var u *upload
	if p := passageOf(req.Context()); p != nil {
		u = &p.upload
	} else {
		u = &upload{in: req, touched: true}
	}
	return roundTrip(a.transport, req, u)
}

// failed answers for an application that did not.
func (a *App) failed(w http.ResponseWriter, r *http.Request, err error) {
	e := wireOf(err)
	f := core.Failure{Code: core.CodeAppBroken, Ran: e.wrote, Detail: e.Error()}
	if !e.connected {
		f.Code = core.CodeAppUnreachable
	}
	p := passageOf(r.Context())
	if p == nil {
		WriteFailure(w, "", f)
		return
	}
	if err := p.upload.broken(); err != nil {
		f.Code, f.Detail = codeBadRequest, "the request's body: "+err.Error()
	}
	p.fail(f)
}

// cleanUpgrade removes from an upgrade's answer what the gate, which does not
// see it, would remove.
func cleanUpgrade(res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		strip(res.Header, ours)
	}
	return nil
}

// silent: a connection that breaks in the middle of an answer is the client's
// and the application's affair.
var silent = log.New(io.Discard, "", 0)

const bufferSize = 32 << 10

var bufferPool = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// buffers is the httputil.BufferPool of all proxies.
type buffers struct{}

func (buffers) Get() []byte  { return bufferPool.Get().(*[bufferSize]byte)[:] }
func (buffers) Put(b []byte) { bufferPool.Put((*[bufferSize]byte)(b)) }
