package main

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tenure-go/tenure/internal/inspect"
)

func (p *program) cellsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cells",
		Short: "Show cells and their owners, as the bucket has them",
		Args:  cobra.ArbitraryArgs,
		RunE:  noCommand,

		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(p.cellsListCommand(), p.cellsShowCommand())
	return cmd
}

func (p *program) cellsListCommand() *cobra.Command {
	var o lookOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the cells that were ever owned",
		Long: "List the cells that were ever owned, in the order of their names, with their\n" +
			"owners and a verdict on each. Nothing is claimed or written.",
		Args: noArgs,
	}
	o.define(cmd.Flags())
	o.definePage(cmd.Flags(), "cells")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.settle(cmd.Flags(), o.check); err != nil {
			return err
		}
		return p.look(&o, func(ctx context.Context, f inspect.Fleet) error {
			page, err := inspect.Paced(f.Cells, f.Leases).ListCells(ctx, o.after, o.limit)
			if err != nil {
				return err
			}
			if o.asJSON {
				return printJSON(p.stdout, page)
			}
			w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "CELL\tEPOCH\tSTATE\tOWNER\tOWNER IS")
			for _, c := range page.Cells {
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", c.Cell, c.Epoch, c.State, cmp.Or(c.Owner, "-"), cmp.Or(string(c.Node), "-"))
			}
			w.Flush()
			p.goOn("tenure cells list", page.Next)
			return nil
		})
	}
	return cmd
}

func (p *program) cellsShowCommand() *cobra.Command {
	o := lookOptions{limit: 1}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show one cell",
		Long:  "Show one cell, its owner and a verdict on that. Nothing is claimed or written.",
		Args:  cobra.ArbitraryArgs,
	}
	o.define(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("the name of one cell is needed: tenure cells show NAME")
		}
		if err := inspect.CheckCell(args[0]); err != nil {
			return usageError{err}
		}
		if err := p.settle(cmd.Flags(), o.check); err != nil {
			return err
		}
		return p.look(&o, func(ctx context.Context, f inspect.Fleet) error {
			c, err := inspect.Paced(f.Cells, f.Leases).Cell(ctx, args[0])
			if err != nil {
				return err
			}
			return p.printCell(c, o.asJSON)
		})
	}
	return cmd
}

// printCell fails for a cell that was never owned, and for a bad record.
func (p *program) printCell(c inspect.Cell, asJSON bool) error {
	switch {
	case asJSON:
		if err := printJSON(p.stdout, c); err != nil {
			return err
		}
	case c.State == inspect.CellOwned:
		fmt.Fprintf(p.stdout, "cell:     %s\nstate:    %s\nepoch:    %d\nowner:    %s\nowner is: %s\naddress:  %s\nreason:   %s\n",
			c.Cell, c.State, c.Epoch, c.Owner, c.Node, cmp.Or(c.Addr, "-"), c.Reason)
	case c.State == inspect.CellReleased:
		fmt.Fprintf(p.stdout, "cell:     %s\nstate:    %s\nepoch:    %d\nreason:   %s\n", c.Cell, c.State, c.Epoch, c.Reason)
	}
	if c.State == inspect.CellNever || c.State == inspect.CellUnreadable {
		return fmt.Errorf("cell %s: %s: %s", c.Cell, c.State, c.Reason)
	}
	return nil
}
