package e2e

import "syscall"

// processAttr: a process dies with the tests, however they end.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
