//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package main

import "syscall"

func childAttr() *syscall.SysProcAttr { return nil }

// lockFile does nothing where the system has no simple lock.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
