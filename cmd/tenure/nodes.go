package main

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-go/tenure/internal/inspect"
)

func (p *program) nodesCommand() *cobra.Command {
	var o lookOptions
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show the fleet's nodes, as the bucket has them",
		Long: "Show the fleet's nodes, as the bucket has them, each with a verdict: alive,\n" +
			"released (it drained), or expired by the store's stamps. The verdicts are for\n" +
			"display: no node claims anything because of them. Nothing is written.",
		Args: noArgs,
	}
	o.define(cmd.Flags())
	o.definePage(cmd.Flags(), "nodes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.settle(cmd.Flags(), o.check); err != nil {
			return err
		}
		return p.look(&o, func(ctx context.Context, f inspect.Fleet) error {
			page, err := inspect.Paced(f.Cells, f.Leases).Nodes(ctx, o.after, o.limit)
			if err != nil {
				return err
			}
			if o.asJSON {
				return printJSON(p.stdout, page)
			}
			p.printNodes(page)
			return nil
		})
	}
	return cmd
}

func (p *program) printNodes(page inspect.Nodes) {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tVERDICT\tLAST WRITE\tADDRESS\tZONE\tCELLS\tREASON")
	for _, n := range page.Nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", n.Node, n.Verdict, ago(n.AgeMS), cmp.Or(n.Addr, "-"), cmp.Or(n.Zone, "-"), n.Cells, n.Reason)
	}
	w.Flush()
	p.goOn("tenure nodes", page.Next)
}

// ago renders an age; it has no digits that nobody reads.
func ago(ms *int64) string {
	if ms == nil {
		return "?"
	}
	d := time.Duration(*ms) * time.Millisecond
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0fs ago", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%.0fm ago", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0fh ago", d.Hours())
	}
	return fmt.Sprintf("%.0fd ago", d.Hours()/24)
}
