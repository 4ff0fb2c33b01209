package domain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"strongroom/compute"
)

// Client speaks to a host's libvirtd. go-libvirt knows neither contexts nor
// timeouts, and a call to a libvirtd that hangs never returns; so every use has
// a connection of its own (2 ms), which is cut when the use must end. A libvirtd
// that was restarted is found by the next use.
type Client struct {
	Socket  string        // libvirtd's read-write socket
	Timeout time.Duration // of one use, default a minute: a start with a vTPM takes seconds, on a busy host tens of them
}

// DefaultSocket is where a distribution's libvirtd listens.
const DefaultSocket = "/run/libvirt/libvirt-sock"

const defaultTimeout = time.Minute

// Do connects, runs fn and disconnects. When ctx or the client's time is over,
// the call in fn fails at once, whatever libvirtd does; libvirtd may still carry
// it out. The error has a kind; ctx's own error comes as it is.
func (c *Client) Do(ctx context.Context, fn func(l *libvirt.Libvirt) error) error {
	return c.doThrough(ctx, func(conn net.Conn) net.Conn { return conn }, fn)
}

// doThrough is Do over what a function makes of the connection.
func (c *Client) doThrough(ctx context.Context, through func(net.Conn) net.Conn, fn func(l *libvirt.Libvirt) error) error {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := c.do(limited, through, fn)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return compute.Errorf(compute.Unavailable, "libvirt did not answer within %s", timeout)
	}
	return translate(err)
}

// Finish is Do for what leaves traces: once begun it comes to its end, also when ctx
// ends meanwhile, so that who clears up afterwards finds them.
func (c *Client) Finish(ctx context.Context, fn func(l *libvirt.Libvirt) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := c.Do(context.WithoutCancel(ctx), fn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// hold gives a connection for a job that libvirt ends when its connection does. hangUp ends it,
// whatever libvirtd does.
func (c *Client) hold(ctx context.Context) (l *libvirt.Libvirt, hangUp func(), err error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, nil, translate(err)
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, defaultTimeout))
	defer cancel()
	stop := context.AfterFunc(limited, func() { conn.Close() })
	l = libvirt.NewWithDialer(dialers.NewAlreadyConnected(conn))
	if err := l.Connect(); err != nil || !stop() {
		conn.Close()
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, compute.Errorf(compute.Unavailable, "libvirt did not answer: %w", cmp.Or(err, limited.Err()))
	}
	return l, func() { conn.Close() }, nil
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	socket := c.Socket
	if socket == "" {
		socket = DefaultSocket
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", socket)
}

func (c *Client) do(ctx context.Context, through func(net.Conn) net.Conn, fn func(l *libvirt.Libvirt) error) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	l := libvirt.NewWithDialer(dialers.NewAlreadyConnected(through(conn)))
	if err := l.Connect(); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer l.Disconnect() // an abrupt end would be an error in libvirtd's log; a hung one ends with ctx
	return fn(l)
}

// translate gives a failure its kind.
func translate(err error) error {
	if compute.KindOf(err) != "" {
		return err
	}
	var e libvirt.Error
	if !errors.As(err, &e) { // the connection
		return compute.Errorf(compute.Unavailable, "libvirt: %w", err)
	}
	kind := compute.Unavailable
	switch libvirt.ErrorNumber(e.Code) {
	case libvirt.ErrNoDomain, libvirt.ErrNoSecret, libvirt.ErrNoNetwork:
		kind = compute.NotFound
	case libvirt.ErrXMLError, libvirt.ErrXMLDetail, libvirt.ErrXMLInvalidSchema, libvirt.ErrConfigUnsupported, libvirt.ErrInvalidArg:
		kind = compute.Invalid
	case libvirt.ErrDomExist:
		kind = compute.Conflict
	}
	return compute.Errorf(kind, "libvirt: %w", err)
}

// isCode reports whether err is libvirt's error of that number.
func isCode(err error, code libvirt.ErrorNumber) bool {
	var e libvirt.Error
	return errors.As(err, &e) && e.Code == uint32(code)
}

// lookup finds a server's domain; found is false when there is none.
func lookup(l *libvirt.Libvirt, id compute.ServerID) (dom libvirt.Domain, found bool, err error) {
	dom, err = l.DomainLookupByUUID(libvirt.UUID(id.UUID))
	if isCode(err, libvirt.ErrNoDomain) {
		return dom, false, nil
	}
	return dom, err == nil, err
}

// power reads a domain's state in the API's words. One that is about to shut
// down still runs.
func power(l *libvirt.Libvirt, dom libvirt.Domain) (compute.PowerState, error) {
	state, _, err := l.DomainGetState(dom, 0)
	if err != nil {
		return compute.PowerNone, err
	}
	switch libvirt.DomainState(state) {
	case libvirt.DomainRunning, libvirt.DomainBlocked, libvirt.DomainShutdown:
		return compute.PowerRunning, nil
	case libvirt.DomainPaused:
		return compute.PowerPaused, nil
	case libvirt.DomainShutoff:
		return compute.PowerShutdown, nil
	case libvirt.DomainCrashed:
		return compute.PowerCrashed, nil
	case libvirt.DomainPmsuspended:
		return compute.PowerSuspended, nil
	}
	return compute.PowerNone, nil
}

// Power gives a server's power state; PowerNone when it has no domain.
func (c *Client) Power(ctx context.Context, id compute.ServerID) (state compute.PowerState, err error) {
	err = c.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, found, err := lookup(l, id)
		if err != nil || !found {
			return err
		}
		state, err = power(l, dom)
		return err
	})
	return state, err
}
