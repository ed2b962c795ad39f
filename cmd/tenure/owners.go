package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// owned is one cell with an owner.
type owned struct {
	cell  string
	node  string // the child's name, or the id of another node
	epoch uint64
}

const (
	// ownersEvery is the least time between looks. A look costs the nodes a
	// read per cell, so a slow one makes the next one later.
	ownersEvery = 500 * time.Millisecond
	ownersSlow  = 10 // times the duration of a look
	ownersPage  = 200
	ownersMost  = 1000 // cells looked at
	tableRows   = 20
)

// watchOwners prints who is ready and who owns what, when it changes.
func (f *fleet) watchOwners(stop context.Context) {
	w := &ownersWatch{client: &http.Client{Timeout: 5 * time.Second}, now: map[string]string{}, ever: map[string]string{}}
	for {
		began := time.Now()
		for _, text := range w.look(stop, f.children) {
			fmt.Fprint(f.stdout, text)
		}
		select {
		case <-stop.Done():
			return
		case <-time.After(max(ownersEvery, ownersSlow*time.Since(began))):
		}
	}
}

// ownersWatch remembers what was said last.
type ownersWatch struct {
	client *http.Client
	now    map[string]string // child's name to its node id while it is ready
	ever   map[string]string // node id to child's name; grows with each restart
	shown  []owned
}

// look returns what is new since the last look.
func (w *ownersWatch) look(ctx context.Context, children []*child) []string {
	news := w.lookReady(children)
	for _, c := range children {
		if w.now[c.name] == "" {
			continue
		}
		cells, err := w.ask(ctx, c)
		if err != nil {
			continue // another one may know
		}
		if !slices.Equal(cells, w.shown) {
			news = append(news, table(cells, w.shown))
			w.shown = cells
		}
		break
	}
	return news
}

func (w *ownersWatch) lookReady(children []*child) (news []string) {
	for _, c := range children {
		info, ok := c.ready.read()
		if !ok {
			delete(w.now, c.name)
			continue
		}
		if w.now[c.name] != info.Node {
			w.now[c.name], w.ever[info.Node] = info.Node, c.name
			news = append(news, fmt.Sprintf("  %-4s is ready as %s\n", c.name, info.Node))
		}
	}
	return news
}

// cellsPage is one page of an operator's GET /v1/cells.
type cellsPage struct {
	Cells []struct {
		Cell  string `json:"cell"`
		Owner string `json:"owner"`
		Epoch uint64 `json:"epoch"`
	} `json:"cells"`
	Next string `json:"next"`
}

// ask returns the first cells that have an owner, as one child knows them.
func (w *ownersWatch) ask(ctx context.Context, c *child) ([]owned, error) {
	var all []owned
	after := ""
	for range ownersMost / ownersPage {
		page, err := w.page(ctx, c.admin, after)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Cells {
			if r.Owner != "" {
				all = append(all, owned{r.Cell, w.name(r.Owner), r.Epoch})
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	return all, nil
}

// name says which child a node is, or was.
func (w *ownersWatch) name(id string) string {
	child, ours := w.ever[id]
	switch {
	case !ours:
		return id
	case w.now[child] != id:
		return child + " (gone)"
	}
	return child
}

func (w *ownersWatch) page(ctx context.Context, admin, after string) (page cellsPage, err error) {
	query := url.Values{"limit": {fmt.Sprint(ownersPage)}}
	if after != "" {
		query.Set("after", after)
	}
	target := fmt.Sprintf("http://%s/v1/cells?%s", admin, query.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return page, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return page, errors.New(resp.Status)
	}
	return page, json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&page)
}

// table is who owns what: rows that are new first, and bounded.
func table(now, before []owned) string {
	was := map[owned]bool{}
	for _, o := range before {
		was[o] = true
	}
	rows := slices.Clone(now)
	slices.SortStableFunc(rows, func(a, b owned) int { return rank(was[a]) - rank(was[b]) })
	rows = rows[:min(len(rows), tableRows)]
	var b strings.Builder
	fmt.Fprintf(&b, "\n    %-30s %-10s %s\n", "cell", "owner", "epoch")
	for _, o := range rows {
		mark := " "
		if !was[o] {
			mark = "*"
		}
		fmt.Fprintf(&b, "  %s %-30s %-10s %d\n", mark, o.cell, o.node, o.epoch)
	}
	if more := len(now) - len(rows); more > 0 {
		fmt.Fprintf(&b, "    … and %d more\n", more)
	}
	if len(now) == 0 {
		fmt.Fprintf(&b, "    no cell has an owner\n")
	}
	return b.String()
}

func rank(old bool) int {
	if old {
		return 1
	}
	return 0
}
