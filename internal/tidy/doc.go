// Package tidy holds the repository's rules, as tests: which package may import
// which, how large functions and files may grow, and what must not be tracked.
// There is no rule without a test, every test has been seen to fail, and there
// are few. To change a rule, change its table here, and say why.
package tidy
