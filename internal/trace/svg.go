package trace

import (
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"
)

// pen writes SVG.
type pen struct{ strings.Builder }

func (p *pen) f(format string, args ...any) { fmt.Fprintf(&p.Builder, format, args...) }

// text writes one line of text.
func (p *pen) text(x, y float64, class, anchor, s string) {
	p.f(`<text x="%.0f" y="%.0f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(s))
}

// fit shortens a text to a number of characters.
func fit(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

func (d *Diagram) width() float64 { return gutter + laneWidth*float64(len(d.lanes)) + 20 }

// heads are the names of the lanes.
func (d *Diagram) heads() string {
	var p pen
	p.f(`<svg class="heads" width="%.0f" height="52" role="presentation">`, d.width())
	p.text(10, 34, "time", "start", "time · line")
	for _, l := range d.lanes {
		p.f(`<rect x="%.0f" y="4" width="%.0f" height="44" rx="6" class="head"/>`, l.x-laneWidth/2+8, laneWidth-16)
		y := 31.0
		if l.sub != "" && l.sub != l.title {
			y = 22
			p.text(l.x, 39, "sub", "middle", fit(l.sub, 34))
		}
		p.text(l.x, y, "lane", "middle", fit(l.title, 26))
	}
	p.f(`</svg>`)
	return p.String()
}

func (d *Diagram) svg() string {
	var p pen
	p.f(`<svg width="%.0f" height="%.0f" role="img" aria-label="%s">`, d.width(), d.height, html.EscapeString(d.Title))
	p.f(`<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" class="tip"/></marker>`)
	p.f(`<marker id="badtip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" class="badtip"/></marker></defs>`)
	for _, l := range d.lanes {
		p.f(`<line x1="%.0f" y1="0" x2="%.0f" y2="%.0f" class="life"/>`, l.x, l.x, d.height)
	}
	for _, b := range d.bars {
		d.bar(&p, b)
	}
	for _, r := range d.rows {
		switch {
		case r.fact == nil:
			d.idle(&p, r)
		case r.from >= 0 && r.to >= 0:
			d.row(&p, r)
		}
	}
	p.f(`</svg>`)
	return p.String()
}

func (d *Diagram) bar(p *pen, b bar) {
	x := d.lanes[b.lane].x + b.offset
	width := map[string]float64{"authority": 11, "owned": 9, "watched": 4}[b.class]
	class := b.class
	if b.open {
		class += " open"
	}
	p.f(`<rect x="%.1f" y="%.1f" width="%.0f" height="%.1f" rx="2" class="bar %s"/>`, x-width/2, b.from, width, max(4, b.to-b.from), class)
	switch {
	case b.class == "owned":
		p.text(x-21, b.from+4, "tag owned", "end", b.label)
	case b.class == "watched":
		p.text(x-6, d.below((b.from+b.to)/2), "tag watched", "end", b.label)
	case b.label != "":
		p.text(x+12, b.to-6, "tag authority", "start", b.label)
	}
}

// below is a height near y at which no row has a label: just below an arrow.
func (d *Diagram) below(y float64) float64 {
	near := y
	for _, r := range d.rows {
		if r.y <= y {
			near = r.y + 11
		}
	}
	return near
}

// idle is a row in which nothing happened.
func (d *Diagram) idle(p *pen, r row) {
	p.f(`<line x1="0" y1="%.1f" x2="%.0f" y2="%.1f" class="idle"/>`, r.y, d.width(), r.y)
	p.text(10, r.y-5, "idle", "start", "⋯ "+r.idle)
}

func (d *Diagram) row(p *pen, r row) {
	f := r.fact
	class := "row"
	if f.Bad {
		class += " bad"
	}
	p.f(`<g class="%s"><title>%s</title>`, class, html.EscapeString(fmt.Sprintf("%s, line %d: %s", Clock(f.Wall), f.Line, f.Text)))
	if !r.again {
		p.text(10, r.y, "time", "start", Clock(f.Wall))
		name := ""
		if len(d.Sources) > 1 {
			name = d.Sources[f.Source].Name + " "
		}
		p.text(gutter-8, r.y, "line", "end", fit(name, 8)+fmt.Sprint(f.Line))
	}
	if r.from == r.to {
		d.note(p, r)
	} else {
		d.arrow(p, r)
	}
	p.f(`</g>`)
}

func (d *Diagram) arrow(p *pen, r row) {
	const gap = 7 // beside the lane
	x1, x2, step := d.lanes[r.from].x, d.lanes[r.to].x, 1.0
	anchor := "start"
	if x2 < x1 {
		step, anchor = -1, "end"
	}
	tip := "tip"
	if r.fact.Bad {
		tip = "badtip"
	}
	p.f(`<line x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f" class="arrow" marker-end="url(#%s)"/>`, x1+step*gap, r.y, x2-step*gap, r.y, tip)
	p.text(x1+step*24, r.y-6, "label", anchor, fit(r.fact.Label, 30))
}

func (d *Diagram) note(p *pen, r row) {
	lines := noteLines(r.fact)
	longest := 0
	for _, s := range lines {
		longest = max(longest, utf8.RuneCountInString(s))
	}
	class := "note"
	switch {
	case r.fact.Run != "":
		class += " run"
	case r.fact.Kind != Message:
		class += " " + string(r.fact.Kind)
	}
	x := d.lanes[r.from].x
	width, height := max(60, 6.6*float64(longest)+18), 14*float64(len(lines))+10
	top := r.y - height + 9
	p.f(`<rect x="%.0f" y="%.1f" width="%.0f" height="%.0f" rx="4" class="%s"/>`, x-width/2, top, width, height, class)
	for i, s := range lines {
		p.text(x, top+17+14*float64(i), "notetext", "middle", s)
	}
}

// WriteHTML writes the diagram as one file that needs nothing else.
func (d *Diagram) WriteHTML(w io.Writer) error {
	var p pen
	p.f("<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n")
	p.f("<title>%s</title>\n<style>%s</style>\n<header><h1>%s</h1>\n", html.EscapeString(d.Title), style, html.EscapeString(d.Title))
	p.f("<table><tr><th>trace<th>node<th>replay</tr>\n")
	for _, s := range d.Sources {
		p.f("<tr><td>%s<td>%s<td>%s</tr>\n", html.EscapeString(s.Path), html.EscapeString(string(s.Node)), html.EscapeString(s.Summary))
	}
	p.f("</table>\n")
	if len(d.Sources) > 1 {
		p.f("<p>The traces lie side by side by the wall clock that each has in its header. Between machines the order is only as good as those clocks.</p>\n")
	}
	p.f("<p class=\"legend\"><span class=\"key authority\"></span> authority, by the node's own clock <span class=\"key owned\"></span> owns the cell <span class=\"key watched\"></span> another node sees its lease unchanged <span class=\"key bad\"></span> not as wanted. Rows are in order, not to scale; ⋯ is time in which nothing happened. Point at a row for its words.</p></header>\n")
	p.f("<div class=\"sticky\">%s</div>\n%s\n", d.heads(), d.svg())
	if d.LeftOut > 0 {
		p.f("<p>%d rows more are left out: narrow the story with --cell or --until.</p>\n", d.LeftOut)
	}
	p.f("<footer><h2>In words</h2><ol>\n")
	for _, f := range d.Shown {
		if f.Text == "" {
			continue
		}
		p.f("<li><time>%s</time> <b>%s</b> <i>%d</i> %s\n", Clock(f.Wall), html.EscapeString(d.Sources[f.Source].Name), f.Line, html.EscapeString(f.Text))
	}
	p.f("</ol></footer></html>\n")
	_, err := io.WriteString(w, p.String())
	return err
}
