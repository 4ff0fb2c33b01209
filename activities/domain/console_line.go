package domain

import (
	"cmp"
	"context"
	"net"
	"path/filepath"

	libvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// Consoles lists the consoles of a server's machine. NotFound: none runs here.
func (a *Activities) Consoles(ctx context.Context, id compute.ServerID) ([]compute.ConsoleType, error) {
	sockets, err := a.consoleSockets(ctx, id)
	types := []compute.ConsoleType{}
	for _, of := range []compute.ConsoleType{compute.ConsoleSerial, compute.ConsoleNoVNC} {
		if sockets[of] != "" {
			types = append(types, of)
		}
	}
	return types, err
}

// OpenConsole connects to a console of a server's machine. NotFound: none runs here, or it has no such console; Corrupt: something else is in the
// place of its screen.
// QEMU ends the connection when the machine stops, or has left for another host.
func (a *Activities) OpenConsole(ctx context.Context, id compute.ServerID, of compute.ConsoleType) (net.Conn, error) {
	sockets, err := a.consoleSockets(ctx, id)
	if err != nil {
		return nil, err
	}
	path := sockets[of]
	if path == "" {
		return nil, compute.Errorf(compute.NotFound, "the machine of server %s has no console of the type %s", id, of)
	}
	var conn net.Conn
	if of == compute.ConsoleSerial { // libvirt made it, in a folder of root's
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", path)
	} else {
		conn, err = a.dialQEMU(ctx, id, path)
	}
	if err != nil {
		return nil, compute.Errorf(cmp.Or(compute.KindOf(err), compute.Unavailable), "console of server %s: %w", id, err)
	}
	return conn, nil
}

// consoleSockets are where QEMU offers the consoles of a server's machine. They are the domain's, in this host's folder:
// what else libvirt says is not connected to.
func (a *Activities) consoleSockets(ctx context.Context, id compute.ServerID) (map[compute.ConsoleType]string, error) {
	var described libvirtxml.Domain
	err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, found, err := lookup(l, id)
		var state compute.PowerState
		if err == nil && found {
			state, err = power(l, dom)
		}
		if err != nil {
			return err
		}
		if state != compute.PowerRunning && state != compute.PowerPaused {
			return compute.Errorf(compute.NotFound, "server %s has no machine that runs on this host", id)
		}
		text, err := l.DomainGetXMLDesc(dom, 0)
		if err == nil {
			err = described.Unmarshal(text)
		}
		return err
	})
	if err != nil || described.Devices == nil {
		return nil, err
	}
	out := map[compute.ConsoleType]string{}
	for _, s := range described.Devices.Serials {
		if s.Source != nil && s.Source.UNIX != nil && filepath.Clean(s.Source.UNIX.Path) == a.socket(id) {
			out[compute.ConsoleSerial] = a.socket(id)
		}
	}
	for _, g := range described.Devices.Graphics {
		if a.VNC && g.VNC != nil && len(g.VNC.Listeners) == 1 && g.VNC.Listeners[0].Socket != nil &&
			filepath.Clean(g.VNC.Listeners[0].Socket.Socket) == a.screen(id) {
			out[compute.ConsoleNoVNC] = a.screen(id)
		}
	}
	return out, nil
}
