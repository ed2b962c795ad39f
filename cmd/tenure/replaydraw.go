package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/tenure-go/tenure/internal/trace"
)

// draw writes the diagram, if one is wanted.
func (r *replays) draw(o replayOptions) (err error) {
	if o.diagram == "" {
		return nil
	}
	title, facts := "Tenure: "+strings.Join(r.names(), ", "), r.told(trace.Overview)
	if o.cell != "" {
		title = "Tenure: the cell " + o.cell
		if facts, err = r.story(o.cell); err != nil {
			return err
		}
	}
	f, err := os.Create(o.diagram)
	if err != nil {
		return err
	}
	if err := trace.Draw(title, o.cell, r.sources(), facts).WriteHTML(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", o.diagram, err)
	}
	return f.Close()
}

func (r *replays) sources() []trace.Source {
	var all []trace.Source
	for i, name := range r.names() {
		one := r.done[i]
		s := trace.Source{Path: one.path, Name: name, Summary: strings.TrimPrefix(one.summary(), one.path+": ")}
		if one.narrator != nil {
			s.Node, s.Line, s.Last, s.Facts = one.result.Node, one.last.Line, one.narrator.Wall(one.last.Now), one.narrator.Facts()
		}
		all = append(all, s)
	}
	return all
}
