// Package bench holds the benchmarks of whole nodes. docs/performance.md has
// their figures and the commands that make them.
package bench
