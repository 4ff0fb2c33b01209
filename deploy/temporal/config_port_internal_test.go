package main

import (
	"net"
	"strconv"
	"testing"
)

// Ports are below those of clients' connections, and free.
func TestFreePort(t *testing.T) {
	t.Parallel()
	for range 20 {
		port, err := freePort()
		if err != nil || port >= 32768 {
			t.Fatal(port, err)
		}
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
}
