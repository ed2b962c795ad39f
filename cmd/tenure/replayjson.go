package main

import (
	"encoding/json"
	"io"
	"time"
)

// What "tenure replay --json" prints.
type (
	replayJSON struct {
		Files []fileJSON `json:"files"`
		Facts []factJSON `json:"facts,omitempty"` // with --explain
	}
	fileJSON struct {
		File       string          `json:"file"`
		Version    string          `json:"version,omitempty"`
		Session    string          `json:"session,omitempty"`
		Segment    int             `json:"segment,omitempty"`
		Name       string          `json:"name,omitempty"`
		Node       string          `json:"node,omitempty"`
		Lines      int             `json:"lines"`
		Decisions  int             `json:"decisions"`
		Identical  bool            `json:"identical"`
		Torn       bool            `json:"torn"`
		Stopped    bool            `json:"stopped"`
		Gaps       []gapJSON       `json:"gaps"`
		Error      string          `json:"error,omitempty"`
		Difference *differenceJSON `json:"difference,omitempty"`
	}
	gapJSON struct {
		Line int    `json:"line"`
		Lost int64  `json:"lost"`
		Why  string `json:"why"`
	}
	differenceJSON struct {
		Line     int               `json:"line"`
		Event    json.RawMessage   `json:"event"`
		Recorded []json.RawMessage `json:"recorded"`
		Computed []json.RawMessage `json:"computed"`
	}
	factJSON struct {
		File  string    `json:"file"`
		Line  int       `json:"line"`
		Time  time.Time `json:"time"`
		T     int64     `json:"t"`
		Cell  string    `json:"cell,omitempty"`
		Peer  string    `json:"peer,omitempty"`
		Epoch uint64    `json:"epoch,omitempty"`
		Text  string    `json:"text"`
	}
)

func (r *replays) writeJSON(w io.Writer, o replayOptions) error {
	out := replayJSON{Files: []fileJSON{}}
	for _, one := range r.done {
		out.Files = append(out.Files, one.asJSON())
	}
	if o.explain {
		story, err := r.story(o.cell)
		if err != nil {
			return err
		}
		for _, f := range story {
			if f.Text != "" {
				out.Facts = append(out.Facts, factJSON{r.done[f.Source].path, f.Line, f.Wall, int64(f.At), string(f.Cell), string(f.Peer), uint64(f.Epoch), f.Text})
			}
		}
	}
	return json.NewEncoder(w).Encode(out)
}

func (one replayed) asJSON() fileJSON {
	f := fileJSON{File: one.path, Gaps: []gapJSON{}}
	if one.err != nil {
		f.Error = one.err.Error()
	}
	p := one.result
	if p == nil {
		return f
	}
	f.Version, f.Session, f.Segment, f.Name = p.Header.Version, p.Header.Session, p.Header.Segment, p.Header.Name
	f.Node, f.Lines, f.Decisions, f.Torn, f.Stopped = string(p.Node), p.Lines, p.Decisions, p.Torn, p.Stopped
	f.Identical = one.err == nil && p.Difference == nil
	for _, g := range p.Gaps {
		f.Gaps = append(f.Gaps, gapJSON{g.Line, g.Lost, g.Why})
	}
	if d := p.Difference; d != nil {
		f.Difference = &differenceJSON{d.Line, json.RawMessage(d.Event), rawList(d.Recorded), rawList(d.Computed)}
	}
	return f
}

func rawList(all []string) []json.RawMessage {
	list := []json.RawMessage{}
	for _, s := range all {
		list = append(list, json.RawMessage(s))
	}
	return list
}
