package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-go/tenure/internal/inspect"
)

func (p *program) diagnoseCommand() *cobra.Command {
	o := lookOptions{limit: 1}
	var readOnly bool
	cmd := &cobra.Command{
		Use:   "diagnose",
		Short: "Test the bucket, read every lease, probe every live peer",
		Long: "Test what a fleet relies on, from this machine: the buckets' conditional writes\n" +
			"and times, as a node does at its start (it writes and deletes one object below\n" +
			"probe/), every lease, and every live peer. It goes on after a failure, says what\n" +
			"to do about each, and exits with 1 if there was one.",
		Args: noArgs,
	}
	o.define(cmd.Flags())
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "skip the tests that write")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.settle(cmd.Flags(), o.check); err != nil {
			return err
		}
		return p.look(&o, func(ctx context.Context, f inspect.Fleet) error {
			return p.diagnose(ctx, f, &o, readOnly)
		})
	}
	return cmd
}

// diagnosis is what --json prints.
type diagnosis struct {
	OK     bool            `json:"ok"`
	Failed int             `json:"failed"`
	Checks []inspect.Check `json:"checks"`
}

func (p *program) diagnose(ctx context.Context, f inspect.Fleet, o *lookOptions, readOnly bool) error {
	prober, err := inspect.NewProber()
	if err != nil {
		return err
	}
	defer prober.Close()
	var all diagnosis
	d := inspect.Diagnosis{
		Cells: f.Cells, Leases: f.Leases, OneBucket: o.bucket == o.leases(), ReadOnly: readOnly,
		Probe: prober.Probe, Wall: time.Now,
	}
	part := ""
	all.Failed = d.Run(ctx, func(c inspect.Check) {
		all.Checks = append(all.Checks, c)
		if !o.asJSON {
			if c.Part != part {
				fmt.Fprintf(p.stdout, "%s\n", p.heading(c.Part, o))
				part = c.Part
			}
			p.printCheck(c)
		}
	})
	all.OK = all.Failed == 0
	if o.asJSON {
		if err := printJSON(p.stdout, all); err != nil {
			return err
		}
	}
	if !all.OK {
		return fmt.Errorf("%d of %d checks failed", all.Failed, len(all.Checks))
	}
	return nil
}

func (p *program) heading(part string, o *lookOptions) string {
	switch part {
	case "bucket":
		return "bucket " + o.bucket
	case "lease-bucket":
		return "lease bucket " + o.leases()
	}
	return part
}

func (p *program) printCheck(c inspect.Check) {
	verdict := "ok  "
	if !c.OK {
		verdict = "FAIL"
	}
	fmt.Fprintf(p.stdout, "  %s  %-16s %s (%dms)\n", verdict, c.Name, c.Detail, c.MS)
	if c.Answer != "" {
		fmt.Fprintf(p.stdout, "        the answer: %s\n", c.Answer)
	}
	if c.Advice != "" {
		fmt.Fprintf(p.stdout, "        what to do: %s\n", c.Advice)
	}
}
