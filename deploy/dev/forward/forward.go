// Package forward hands on TCP connections, as a network namespace or a virtual machine needs it
// that is to reach what listens outside.
package forward

import (
	"context"
	"io"
	"net"
	"sync"
)

// Forwarder hands on what a listener accepts to an address.
type Forwarder struct {
	listener net.Listener
	to       string
	ctx      context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
}

// Start hands on each connection that the listener accepts to a "host:port", reached from the
// caller's network, until Close. Each side hears of the other's end.
func Start(listener net.Listener, to string) *Forwarder {
	f := &Forwarder{listener: listener, to: to}
	f.ctx, f.end = context.WithCancel(context.Background())
	f.running.Go(f.serve)
	return f
}

// Addr is the listener's address.
func (f *Forwarder) Addr() net.Addr { return f.listener.Addr() }

// Close ends the listener and all connections.
func (f *Forwarder) Close() {
	f.end()
	_ = f.listener.Close()
	f.running.Wait()
}

func (f *Forwarder) serve() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.running.Go(func() { f.join(conn) })
	}
}

// join hands on a connection until both sides have ended.
func (f *Forwarder) join(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := (&net.Dialer{}).DialContext(f.ctx, "tcp", f.to)
	if err != nil {
		return // the caller sees its connection end, and tries again
	}
	defer func() { _ = to.Close() }()
	stop := context.AfterFunc(f.ctx, func() { _, _ = from.Close(), to.Close() })
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
