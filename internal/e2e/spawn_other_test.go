//go:build unix && !linux

package e2e

import "syscall"

func processAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
