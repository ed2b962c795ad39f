//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// only is the one kind of store that the tests run on; empty: sqlite and s3.
var only = os.Getenv("TENURE_E2E_STORE")

// The fleet's lease, and what follows from it (docs/protocol.md).
var (
	ttl   = leaseTTL()
	slack = ttl / 20
	// takeover is how long after the first failed contact a cell may stay
	// unserved, without what it takes to notice, dial and claim.
	takeover = ttl + slack
	// patience is for one request. An owner that went silent is judged dead
	// within ttl/3 + takeover, and everything that waits on it is then
	// answered: a request that takes longer than this hangs.
	patience = takeover + ttl/3 + 2200*time.Millisecond
)

// startUp is for what has no limit of its own but the machine's speed.
const startUp = 20 * time.Second

// leaseTTL is short, where the store allows it, and is quick enough: Azurite
// takes its time on a busy machine.
func leaseTTL() time.Duration {
	if only == "gcs" || only == "azure" {
		return 5 * time.Second
	}
	return 2 * time.Second
}

// program is the tenure binary under test.
var program string

// skewed says that the nodes have wrong wall clocks.
var skewed = os.Getenv("TENURE_E2E_SKEW") == "1"

// long skips what takes minutes, unless it was asked for (.ci/run does).
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("TENURE_E2E_LONG") != "1" {
		t.Skip("takes minutes: set TENURE_E2E_LONG=1")
	}
}

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	if program = os.Getenv("TENURE_E2E_PROGRAM"); program != "" {
		return m.Run() // TestOnOtherStores has built it
	}
	dir, err := os.MkdirTemp("", "tenure-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "tenure")
	args := []string{"build", "-o", program}
	if skewed {
		args = append(args, "-tags", "tenure_wallskew")
	}
	build := exec.Command("go", append(args, "../../cmd/tenure")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build tenure: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
