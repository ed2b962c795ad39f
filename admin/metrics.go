package admin

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

// Meter is a [Node] that has metrics.
type Meter interface {
	// Metrics returns them as they are now, in the same order every time.
	Metrics(ctx context.Context) ([]Metric, error)
}

// Metric is one metric of Prometheus' text format. Names and labels are the
// program's own, and plain; values of labels may be any text.
type Metric struct {
	name, help, kind string
	samples          []sample
}

type sample struct {
	labels []string // name, value, name, value
	value  float64
}

// Gauge is a metric that goes up and down.
func Gauge(name, help string) Metric { return Metric{name: name, help: help, kind: "gauge"} }

// Counter is a metric that only goes up.
func Counter(name, help string) Metric { return Metric{name: name, help: help, kind: "counter"} }

// With adds a sample; labels are names and values in turn.
func (m Metric) With(value float64, labels ...string) Metric {
	m.samples = append(m.samples, sample{labels, value})
	return m
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (m Metric) write(b *strings.Builder) {
	b.WriteString("# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " " + m.kind + "\n")
	for _, s := range m.samples {
		b.WriteString(m.name)
		for i := 0; i+1 < len(s.labels); i += 2 {
			sep := ","
			if i == 0 {
				sep = "{"
			}
			b.WriteString(sep + s.labels[i] + `="` + escapeLabel.Replace(strings.ToValidUTF8(s.labels[i+1], "\uFFFD")) + `"`)
		}
		if len(s.labels) > 0 {
			b.WriteString("}")
		}
		b.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
	}
}

// exposition is a body in Prometheus' text format.
type exposition string

func (h *Handler) metrics(ctx context.Context, _ *http.Request) (any, error) {
	n, ok := h.node.(Meter)
	if !ok {
		return nil, errNotImplemented
	}
	all, err := n.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, m := range all {
		m.write(&b)
	}
	return exposition(b.String()), nil
}
