package wire

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/tenure-go/tenure/core"
)

// MaxName is the longest name that a node id begins with, in bytes.
const MaxName = 40

const idHex = 16 // hex digits at the end of a node id

// NewNodeID makes a node id: the name made safe, and 16 random hex digits, so
// that no id ever comes back. randomness is crypto/rand's Reader, or a
// simulator's.
func NewNodeID(name string, randomness io.Reader) (core.NodeID, error) {
	digits, err := random(randomness, idHex/2)
	if err != nil {
		return "", fmt.Errorf("make a node id: %w", err)
	}
	return core.NodeID(SafeName(name) + "-" + digits), nil
}

// NewToken makes 32 random hex digits: a session's generation, a fleet's id.
func NewToken(randomness io.Reader) (string, error) {
	digits, err := random(randomness, 16)
	if err != nil {
		return "", fmt.Errorf("make a random token: %w", err)
	}
	return digits, nil
}

func random(r io.Reader, n int) (string, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}

// SafeName makes a host name (or any text) fit to begin a node id: runs of
// other bytes become one "-", the ends are trimmed, and the length bounded.
// Nothing left is "node".
func SafeName(name string) string {
	var b strings.Builder
	gap := false
	for i := 0; i < len(name) && b.Len() < MaxName; i++ {
		if !nameByte(name[i]) {
			gap = true
			continue
		}
		if gap {
			b.WriteByte('-')
		}
		gap = false
		b.WriteByte(name[i])
	}
	safe := b.String()
	safe = strings.Trim(safe[:min(len(safe), MaxName)], "-._")
	if safe == "" {
		return "node"
	}
	return safe
}

// CheckNodeID reports why the text is not a node id, or nil.
func CheckNodeID(id core.NodeID) error {
	cut := len(id) - idHex - 1
	if cut < 1 || cut > MaxName || id[cut] != '-' {
		return fmt.Errorf("%.80q is not a node id (name-0123456789abcdef)", string(id))
	}
	for i := range cut {
		if !nameByte(id[i]) {
			return fmt.Errorf("node id %q has %q in its name", string(id), id[i])
		}
	}
	if !lowerHex(string(id[cut+1:])) {
		return fmt.Errorf("node id %q does not end in %d hex digits", string(id), idHex)
	}
	return nil
}

func nameByte(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return true
	}
	return b == '-' || b == '.' || b == '_'
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}
