package main

import (
	"net"
	"strconv"
	"testing"
)

// Ports are below those of clients' connections, and free, and none is given twice.
func TestFreePort(t *testing.T) {
	t.Parallel()
	given := map[int]bool{}
	for range 400 { // of 4,000: else some twenty would come twice
		port, err := freePort()
		if err != nil || port >= 20000 || given[port] {
			t.Fatal(port, err)
		}
		given[port] = true
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
}
