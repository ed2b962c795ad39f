package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-go/tenure"
)

// node is the part of tenure.Node that serving needs.
type node interface {
	ID() string
	Addrs() tenure.Addrs
	Ready() <-chan struct{}
	Done() <-chan struct{}
	Err() error
	Shutdown(context.Context) error
}

func startNode(ctx context.Context, cfg tenure.Config) (node, error) {
	n, err := tenure.Start(ctx, cfg)
	if err != nil {
		return nil, err // not a nil *Node in a non-nil interface
	}
	return n, nil
}

func (p *program) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one node",
		Long: "Run one node of a fleet. All nodes with the same bucket are one fleet.\n" +
			"SIGTERM and SIGINT drain it; a second one ends it at once.",
		Args: noArgs,
	}
	o.define(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.settle(cmd.Flags(), o.check); err != nil {
			return err
		}
		log := o.logger(p.stderr)
		if o.app == "" {
			log.Warn("serving the built-in demo, because no --app was given")
		}
		err := p.serve(o, log)
		if err != nil {
			log.Error("the node ended", "error", err)
			return reportedError{err}
		}
		return nil
	}
	return cmd
}

// heapFloor is memory that is never touched, and so takes only addresses; but
// the collector, which waits until the heap has doubled, counts it. The heap of
// a node with few cells is a few MiB, and would be collected some 25 times a
// second under load, for a fifth of the time. So a node takes up to this much
// more memory, however many cells it has; GOGC and GOMEMLIMIT work as ever.
const heapFloor = 32 << 20

// serve runs one node until it ends by itself or a signal has drained it.
func (p *program) serve(o serveOptions, log *slog.Logger) error {
	defer runtime.KeepAlive(make([]byte, heapFloor))
	ready := readyFile(o.readyFile)
	// What is there now was left by a process that was killed.
	if err := ready.remove(); err != nil {
		return err
	}
	stop, stopping := context.WithCancel(context.Background())
	defer stopping()
	go p.watchSignals(stopping, func() { _ = ready.remove() })

	// A signal abandons the start, but must not reach a started node this way:
	// that one is drained.
	starting, abandon := context.WithCancel(context.Background())
	defer abandon()
	started := context.AfterFunc(stop, abandon)
	n, err := p.start(starting, o.config(log))
	started()
	if err != nil {
		if stop.Err() != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	err = attend(n, ready, stop.Done(), o.drainTimeout)
	return errors.Join(err, ready.remove())
}

// watchSignals calls stopping at the first signal, and ends the process at the
// second.
func (p *program) watchSignals(stopping, cleanUp func()) {
	<-p.signals
	stopping()
	<-p.signals
	cleanUp()
	p.exit(exitFailed)
}

// attend waits for what comes: the lease, a signal, the end.
func attend(n node, ready readyFile, stopped <-chan struct{}, drain time.Duration) error {
	held := n.Ready()
	for {
		select {
		case <-held:
			held = nil
			if err := ready.write(n); err != nil {
				return errors.Join(fmt.Errorf("ready file: %w", err), shutdown(n, drain))
			}
		case <-stopped:
			return shutdown(n, drain)
		case <-n.Done():
			// The last answers may be on their way; a fence leaves 100 ms.
			ctx, cancel := context.WithTimeout(context.Background(), 80*time.Millisecond)
			defer cancel()
			_ = n.Shutdown(ctx) // its error is the node's, or that time is up
			return n.Err()
		}
	}
}

// shutdown drains the node. The node keeps its drain timeout itself; the
// context is there in case it does not.
func shutdown(n node, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain+10*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		return err
	}
	return n.Err()
}
