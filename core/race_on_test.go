//go:build race

package core_test

// defaultSeeds: the race detector makes everything ten times slower, and the
// core has nothing for it to find.
const defaultSeeds = 25
