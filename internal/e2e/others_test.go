//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestOnOtherStores runs what matters most on the stores that the other tests
// leave out, in processes of their own: their leases are longer. All
// of the tests run on one with TENURE_E2E_STORE=gcs or =azure.
func TestOnOtherStores(t *testing.T) {
	long(t)
	if only != "" || skewed {
		t.Skip("only in the ordinary run")
	}
	matters := []string{"TestKilledOwnerUnderLoad", "TestFrozenOwner", "TestDrainedOwner", "TestAnotherTTL", "TestNoSuchBucket", "TestCostOnTheWire"}
	for _, name := range []string{"gcs", "azure"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^("+strings.Join(matters, "|")+")$")
			c.Env = append(os.Environ(), "TENURE_E2E_STORE="+name, "TENURE_E2E_PROGRAM="+program)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, test := range matters {
				switch passed, skipped := "--- PASS: "+test+"/"+name, "--- SKIP: "+test+"/"+name; {
				case strings.Contains(string(out), skipped):
					t.Skipf("no server:\n%s", out)
				case !strings.Contains(string(out), passed):
					t.Errorf("%s did not run:\n%s", test, out)
				}
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "served again after") || strings.Contains(line, "on the wire") || strings.HasPrefix(line, "--- PASS") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}
