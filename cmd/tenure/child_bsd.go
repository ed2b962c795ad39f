//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package main

import "syscall"

// childAttr: in a process group of its own a child does not get the terminal's
// Ctrl-C, so it is drained once, by its parent.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
