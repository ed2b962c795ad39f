package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The processes of the benchmark are this test binary in another role, and the
// command itself.
const (
	roleVar   = "TENURE_BENCH_ROLE"
	targetVar = "TENURE_BENCH_TARGET"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "app":
		serveRole(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"cell":"room-1","count":1}`)
		}))
	case "proxy":
		serveRole(bareProxy(os.Getenv(targetVar)))
	default:
		os.Exit(m.Run())
	}
}

// serveRole says on stdout where it listens, and serves until stdin closes.
func serveRole(h http.Handler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	// The limits without which no server should face the public.
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go s.Serve(l)
	io.Copy(io.Discard, os.Stdin)
}

// bareProxy is the baseline: what the gateway does with a request, without
// deciding anything.
func bareProxy(target string) http.Handler {
	pool := sync.Pool{New: func() any { return new([32 << 10]byte) }}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: target})
			r.SetXForwarded()
		},
		Transport: &http.Transport{
			DisableCompression: true, MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 1500 * time.Millisecond,
		},
		BufferPool: buffers{&pool},
	}
}

type buffers struct{ *sync.Pool }

func (b buffers) Get() []byte  { return b.Pool.Get().(*[32 << 10]byte)[:] }
func (b buffers) Put(p []byte) { b.Pool.Put((*[32 << 10]byte)(p)) }

// role starts this binary in a role and returns its address.
func role(b *testing.B, name, target string) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+name, targetVar+"="+target)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return line[:len(line)-1]
}

// serve starts a node of the command and returns its public address.
func serve(b *testing.B, binary, dir, name, app string) string {
	ready := filepath.Join(dir, name+".json")
	cmd := exec.Command(binary, "serve", "--bucket", "sqlite:"+filepath.Join(dir, "fleet.db"), "--name", name,
		"--app", "http://"+app, "--listen", "127.0.0.1:0", "--ready-file", ready)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() })
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		var addrs struct{ Listen string }
		if body, err := os.ReadFile(ready); err == nil && json.Unmarshal(body, &addrs) == nil {
			return addrs.Listen
		}
	}
	b.Fatalf("%s is not ready", name)
	return ""
}

// load sends requests over 32 connections for a while and returns requests per
// second.
func load(b *testing.B, target string, d time.Duration) float64 {
	const connections = 32
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var done atomic.Int64
	var wg sync.WaitGroup
	from := time.Now()
	for range connections {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := get(client, target); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(from).Seconds()
}

func get(client *http.Client, target string) error {
	res, err := client.Get(target)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		return fmt.Errorf("%s: %s %s %w", target, res.Status, body, err)
	}
	return nil
}

// BenchmarkThroughput compares warm requests through a node, here and forwarded
// to a peer, with a bare reverse proxy to the same application, with the same
// transport, buffer pool and server limits, over 32 connections. Rounds alternate, so that a noisy machine meets all alike.
func BenchmarkThroughput(b *testing.B) {
	dir := b.TempDir()
	binary := filepath.Join(dir, "tenure")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/tenure-go/tenure/cmd/tenure").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	app := role(b, "app", "")
	targets := []struct{ name, url string }{
		{"proxy", "http://" + role(b, "proxy", app) + "/"},
		{"local", "http://" + serve(b, binary, dir, "a", app) + "/cells/room-1/"},
		{"forwarded", "http://" + serve(b, binary, dir, "b", app) + "/cells/room-1/"},
	}
	rates := map[string][]float64{}
	for _, t := range targets { // warm, and the first to be asked is the owner
		load(b, t.url, time.Second)
	}
	for range 7 {
		for _, t := range targets {
			rates[t.name] = append(rates[t.name], load(b, t.url, 2*time.Second))
		}
	}
	for b.Loop() {
	}
	median := func(name string) float64 { slices.Sort(rates[name]); return rates[name][len(rates[name])/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median("proxy"), "proxy-req/s")
	b.ReportMetric(median("local")/median("proxy"), "local/proxy")
	b.ReportMetric(median("forwarded")/median("proxy"), "forwarded/proxy")
}
