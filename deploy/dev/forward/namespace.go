package forward

import (
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Namespaces is where `ip netns` keeps network namespaces.
const Namespaces = "/run/netns"

// From hands on what reaches an address of a network namespace's loopback to the same address
// of this process's.
func From(netns, address string) (*Forwarder, error) {
	var listener net.Listener
	err := Within(netns, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		return nil, err
	}
	return Start(listener, address), nil
}

// Within does something in a network namespace: sockets that it makes are there. "" is this
// process's.
func Within(netns string, do func() error) error {
	if netns == "" {
		return do()
	}
	done := make(chan error, 1)
	go func() {
		// The thread is in the namespace and is of no other use: it ends with its goroutine,
		// which stays locked to it.
		runtime.LockOSThread()
		done <- enterAnd(netns, do)
	}()
	return <-done
}

func enterAnd(netns string, do func() error) error {
	space, err := os.Open(filepath.Join(Namespaces, filepath.Base(netns)))
	if err != nil {
		return err
	}
	defer func() { _ = space.Close() }()
	if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	return do()
}
