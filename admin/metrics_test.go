package admin

import (
	"context"
	"errors"
	"testing"
)

type meteredNode struct {
	fakeNode
	metrics []Metric
}

func (n *meteredNode) Metrics(context.Context) ([]Metric, error) { return n.metrics, n.err }

func TestMetrics(t *testing.T) {
	n := &meteredNode{metrics: []Metric{
		Gauge("tenure_a", "What a is.").With(1.5),
		Counter("tenure_b_total", "B.").With(1e21, "x", "one").With(0, "x", "t\"w\\o\n", "y", "\xff"),
		Counter("tenure_c_total", "Nothing yet."),
	}}
	w := ask(New(Options{Node: n}), "GET", "/metrics")
	const want = `# HELP tenure_a What a is.
# TYPE tenure_a gauge
tenure_a 1.5
# HELP tenure_b_total B.
# TYPE tenure_b_total counter
tenure_b_total{x="one"} 1e+21
tenure_b_total{x="t\"w\\o\n",y="�"} 0
# HELP tenure_c_total Nothing yet.
# TYPE tenure_c_total counter
`
	if w.Code != 200 || w.Body.String() != want || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%d %v\n%s\nwant\n%s", w.Code, w.Header(), w.Body, want)
	}
	expect(t, ask(New(Options{Node: n, Token: "secret"}), "GET", "/metrics"), 401, "unauthorized")
	n.err = errors.New("gone")
	expect(t, ask(New(Options{Node: n}), "GET", "/metrics"), 503, "unavailable")
	expect(t, ask(New(Options{Node: &fakeNode{}}), "GET", "/metrics"), 501, "not-implemented")
}
