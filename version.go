package tenure

import "runtime/debug"

// Version is the version of the module that this program was built with, and
// the commit where it is known.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; info.Main.Path == modulePath && v != "" {
		return v
	}
	for _, m := range info.Deps {
		if m.Path == modulePath {
			return m.Version
		}
	}
	return "unknown"
}

const modulePath = "github.com/tenure-go/tenure"
