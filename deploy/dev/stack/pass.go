package stack

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// pass hands on what reaches an address of a network namespace's loopback to the same address
// of this process's.
type pass struct {
	listener net.Listener
	ctx      context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
}

func listenIn(netns, address string) (*pass, error) {
	p := &pass{}
	p.ctx, p.end = context.WithCancel(context.Background())
	err := within(netns, func() (err error) {
		p.listener, err = (&net.ListenConfig{}).Listen(p.ctx, "tcp", address)
		return err
	})
	if err != nil {
		p.end()
		return nil, err
	}
	p.running.Go(p.serve)
	return p, nil
}

func (p *pass) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.hand(conn) })
	}
}

// hand joins a connection with one of this process's network until either ends.
func (p *pass) hand(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.listener.Addr().String())
	if err != nil {
		return // the caller sees its connection end, and tries again
	}
	defer func() { _ = to.Close() }()
	stop := context.AfterFunc(p.ctx, func() { _ = from.Close() })
	defer stop()
	var back sync.WaitGroup
	back.Go(func() { copyAndEnd(from, to) })
	copyAndEnd(to, from)
	back.Wait()
}

// copyAndEnd copies what one says to the other, its end included.
func copyAndEnd(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if tcp, ok := to.(*net.TCPConn); ok && err == nil {
		_ = tcp.CloseWrite()
		return
	}
	_ = to.Close()
}

func (p *pass) close() {
	p.end()
	_ = p.listener.Close()
	p.running.Wait()
}

// within does something in a network namespace: sockets that it makes are there. "" is this
// process's.
func within(netns string, do func() error) error {
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
	space, err := os.Open(filepath.Join(netnsFolder, filepath.Base(netns)))
	if err != nil {
		return err
	}
	defer func() { _ = space.Close() }()
	if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	return do()
}
