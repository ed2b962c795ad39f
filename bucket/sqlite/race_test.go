//go:build race

package sqlite_test

// raceEnabled says that SQLite, which is compiled to Go, is many times slower
// than it is in use.
const raceEnabled = true
