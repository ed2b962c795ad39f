package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tenure-go/tenure"
)

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the peer protocol",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			version, commit := "unknown", "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				version, commit = buildOf(info)
			}
			_, err := fmt.Fprintf(p.stdout, "version:       %s\ncommit:        %s\npeer protocol: %d\n",
				version, commit, tenure.PeerProtocol)
			return err
		},
	}
}

// buildOf is the version and commit that the Go command put into the binary.
func buildOf(info *debug.BuildInfo) (version, commit string) {
	version, commit = info.Main.Version, "unknown"
	if version == "" {
		version = "(devel)"
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " (with changes)"
		}
	}
	return version, commit + changed
}
