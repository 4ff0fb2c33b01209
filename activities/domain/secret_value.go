package domain

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"sync/atomic"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"strongroom/compute"
)

// longestValue bounds what goes to libvirt in one write: go-libvirt's buffer is larger.
const longestValue = 2048

// SetSecretValue gives libvirt a secret's value, and leaves it nowhere in this process:
// go-libvirt copies what it sends into buffers that nobody can wipe. So it sends another
// value of the same length, on a connection of its own, which puts the right one in its
// place.
func (c *Client) SetSecretValue(ctx context.Context, s libvirt.Secret, value []byte) error {
	if len(value) > longestValue {
		return compute.Errorf(compute.Invalid, "secret %s has %d bytes; libvirt is given %d at most", uuid.UUID(s.UUID), len(value), longestValue)
	}
	conn := &substituting{value: value, standIn: make([]byte, len(value))}
	_, _ = rand.Read(conn.standIn) // never fails
	err := c.doThrough(ctx, func(to net.Conn) net.Conn {
		conn.Conn = to
		return conn
	}, func(l *libvirt.Libvirt) error {
		conn.armed.Store(true)
		return l.SecretSetValue(s, conn.standIn, 0)
	})
	if err == nil && !conn.done.Load() {
		err = compute.Errorf(compute.Unavailable, "secret %s: its value was not sent in one piece", uuid.UUID(s.UUID))
	}
	return err
}

// A call's bytes end with the value, padded to a multiple of 4, and the flags.
const (
	xdrUnit    = 4
	flagsBytes = 4
)

// substituting is a connection on which one value goes out in place of another one. It
// wipes what it copies.
type substituting struct {
	net.Conn
	value, standIn []byte
	armed, done    atomic.Bool
}

func (s *substituting) Write(p []byte) (int, error) {
	end := len(p) - flagsBytes - (xdrUnit-len(s.standIn)%xdrUnit)%xdrUnit
	at := end - len(s.standIn)
	if !s.armed.Load() || at < 0 || !bytes.Equal(p[at:end], s.standIn) {
		return s.Conn.Write(p)
	}
	s.armed.Store(false)
	s.done.Store(true)
	own := bytes.Clone(p)
	defer clear(own)
	copy(own[at:], s.value)
	return s.Conn.Write(own)
}
