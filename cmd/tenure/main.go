// Command tenure gives every cell exactly one owner process in a fleet: "tenure
// up" starts a fleet on this machine to try it, "tenure serve" is one node.
//
// Data goes to stdout, messages to stderr. The exit code is 0 when done, 1 when
// something failed, 2 for bad usage, 3 when the node was fenced.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-go/tenure"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	p := &program{
		executable: self, firstPort: 8080,
		stdout: os.Stdout, stderr: os.Stderr, lookup: os.LookupEnv,
		signals: apart(signals), exit: os.Exit, start: startNode,
	}
	os.Exit(p.run(os.Args[1:]))
}

// apart drops signals that come together with the first: one Ctrl-C, or one
// "timeout", can reach a process once by itself and once through its group, and
// must not be taken for the second one, which ends everything at once.
func apart(signals <-chan os.Signal) <-chan os.Signal {
	const together = 300 * time.Millisecond
	out := make(chan os.Signal)
	go func() {
		first := <-signals
		from := time.Now()
		out <- first
		for s := range signals {
			if time.Since(from) > together {
				out <- s
			}
		}
	}()
	return out
}

// program is what the commands take from the process around them.
type program struct {
	stdout, stderr io.Writer
	lookup         func(name string) (string, bool) // of the environment
	signals        <-chan os.Signal                 // that ask it to stop
	exit           func(code int)
	executable     string // for child processes
	firstPort      int    // of "tenure up"; 0: any free ones
	start          func(context.Context, tenure.Config) (node, error)
}

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitFenced = 3
)

// usageError is the caller's mistake, not the program's failure.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// reportedError was already written to stderr.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

// run is the whole program: it returns the exit code.
func (p *program) run(args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	cmd, err := root.ExecuteC()
	var usage usageError
	var reported reportedError
	switch {
	case err == nil, errors.As(err, &reported):
	case errors.As(err, &usage):
		fmt.Fprintf(p.stderr, "tenure: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
	default:
		fmt.Fprintf(p.stderr, "tenure: %v\n", err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, tenure.ErrFenced):
		return exitFenced
	}
	return exitFailed
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tenure",
		Short: "Exactly one owner process for every cell, with nothing but a bucket",
		Long: "Tenure gives every cell (a chat room, a tenant, a device, a job) exactly one\n" +
			"owner process in a fleet, and sends each request for a cell to that owner.\n" +
			"The only shared thing is a bucket with conditional writes.\n\n" +
			"Try it:  tenure up",
		Args:                       cobra.ArbitraryArgs,
		RunE:                       noCommand,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2, // else only a prefix is suggested
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetUsageFunc(writeUsage)
	root.AddCommand(p.upCommand(), p.serveCommand(), p.nodesCommand(), p.cellsCommand(), p.diagnoseCommand(),
		p.simCommand(), p.replayCommand(), p.checkCommand(), p.versionCommand())
	return root
}

// noCommand runs where no command was named.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("a command is needed: %s", strings.Join(commandNames(cmd), ", "))
	}
	msg := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += fmt.Sprintf(", did you mean %q?", near[0])
	}
	return usagef("%s", msg)
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// noArgs refuses what stands after the flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%q takes no arguments, but was given %q", cmd.Name(), args[0])
	}
	return nil
}

// first is the first error there is.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
