package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reservedEnv is what "tenure run" gives to its command, which may well be a
// tenure of its own. These never set a flag.
var reservedEnv = []string{"TENURE_CELL", "TENURE_EPOCH", "TENURE_NODE"}

// envName is the variable that sets a flag, or "" if none does.
func envName(flag string) string {
	name := "TENURE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	if flag == "help" || slices.Contains(reservedEnv, name) {
		return ""
	}
	return name
}

// applyEnv sets the flags that were not given from the environment. An empty
// variable counts as unset.
func (p *program) applyEnv(flags *pflag.FlagSet) error {
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		name := envName(f.Name)
		if f.Changed || name == "" || failed != nil {
			return
		}
		value, ok := p.lookup(name)
		if !ok || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			failed = usagef("environment variable %s: %q is not a value for --%s: %w", name, value, f.Name, cause(err))
		}
	})
	return failed
}

// settle completes a command's flags from the environment, and checks them. An
// error names the variable that a bad value came from.
func (p *program) settle(flags *pflag.FlagSet, check func() error) error {
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := p.applyEnv(flags); err != nil {
		return err
	}
	err := check()
	if err == nil {
		return nil
	}
	flags.Visit(func(f *pflag.Flag) {
		if !given[f.Name] && strings.HasPrefix(err.Error(), "--"+f.Name+" ") {
			err = usagef("environment variable %s: %w", envName(f.Name), err)
		}
	})
	return err
}

// cause is without pflag's own words, which speak of a flag on the command line.
func cause(err error) error {
	if e, ok := err.(*pflag.InvalidValueError); ok {
		return e.Unwrap()
	}
	return err
}

// defaultWords says a default in words, where the value alone does not.
const defaultWords = "default-words"

func describeDefault(flags *pflag.FlagSet, name, words string) {
	f := flags.Lookup(name)
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[defaultWords] = []string{words}
}

// writeUsage is the help of every command. Each flag has its unit (DURATION,
// CELLS, ...), its default and its environment variable.
func writeUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n", useLine(cmd))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-10s %s\n", c.Name(), c.Short)
			}
		}
	}
	if cmd.HasAvailableFlags() && cmd.HasParent() && !cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nFlags:\n")
		cmd.Flags().VisitAll(func(f *pflag.Flag) { writeFlag(w, f) })
		fmt.Fprintf(w, "\nA DURATION is a number with a unit: 500ms, 10s, 2m. A flag wins over its variable.\n")
	}
	return nil
}

func useLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND [flags]"
	}
	return cmd.CommandPath() + strings.TrimPrefix(cmd.Use, cmd.Name()) + " [flags]"
}

func writeFlag(w io.Writer, f *pflag.Flag) {
	if f.Hidden || f.Name == "help" {
		return
	}
	unit, text := pflag.UnquoteUsage(f)
	if unit != "" {
		unit = " " + unit
	}
	fmt.Fprintf(w, "  --%s%s\n", f.Name, unit)
	for line := range strings.Lines(text) {
		fmt.Fprintf(w, "        %s\n", strings.TrimSuffix(line, "\n"))
	}
	notes := []string{"default: " + defaultText(f)}
	if name := envName(f.Name); name != "" {
		notes = append(notes, "env: "+name)
	}
	fmt.Fprintf(w, "        (%s)\n", strings.Join(notes, "; "))
}

func defaultText(f *pflag.Flag) string {
	if words := f.Annotations[defaultWords]; len(words) > 0 {
		return words[0]
	}
	if f.DefValue == "" {
		return "none"
	}
	return f.DefValue
}
