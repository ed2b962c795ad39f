package main

import (
	"fmt"
	"net"
)

// choosePorts finds a free loopback address for each wanted port: that port, or
// where it is 0 or taken, any. It listens on all before it lets go of them, so
// that they differ.
func choosePorts(want []int) ([]string, error) {
	var addrs []string
	for _, port := range want {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
