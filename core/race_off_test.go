//go:build !race

package core_test

const defaultSeeds = 250
