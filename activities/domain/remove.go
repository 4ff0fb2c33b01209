package domain

import (
	"context"
	"errors"
	"io/fs"
	"os"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"strongroom/compute"
)

// Remove is the activity domain.Remove. Invalid: the thing's name is none of its kind's.
//
// Of a domain it ensures that libvirt has none of that name, running or defined. Its TPM
// state stays: it is a thing of its own. One that an operation started which began when the
// removal waited already is left alone: the server came back to this host.
//
// Of a running_domain it ensures that the domain is off, and that none comes from another host. One that waited to be removed is
// left alone where another operation than the thing's started the domain: its owner started
// the server again meanwhile. A domain that does not say who started it is stopped.
//
// Of a plugged_port it ensures that the domain has no interface on the port. A guest that runs has some seconds to give the
// device up; from one that it keeps the link is taken: what the guest sends goes nowhere, and nothing comes. One that waited to be removed is
// left alone where the guest was booted since: it has the interfaces then that its server has. Unavailable: the guest is suspended.
//
// Of a hypervisor_secret it ensures that libvirt knows none of that id, nor any that is
// lent to the thing's server. Whoever is lent one holds the server's lock for as long as it
// is needed, so only those are taken back that nobody needs any more.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	server, err := in.OfServer()
	if err != nil {
		return err
	}
	remove, err := a.removal(in, server)
	if err != nil {
		return err
	}
	unlock, err := a.lock(ctx, server)
	if err != nil {
		return err
	}
	defer unlock()
	return remove(ctx)
}

func (a *Activities) removal(in compute.Removal, server compute.ServerID) (func(context.Context) error, error) {
	name := in.Thing.Name
	switch in.Thing.Kind {
	case compute.ThingDomain:
		if name != compute.InstanceName(server) {
			return nil, compute.Errorf(compute.Invalid, "%s is not the domain of server %s", name, server)
		}
		return func(ctx context.Context) error { return a.removeDomain(ctx, in.Thing, server) }, nil
	case compute.ThingRunningDomain:
		if name != compute.InstanceName(server) {
			return nil, compute.Errorf(compute.Invalid, "%s is not the domain of server %s", name, server)
		}
		return func(ctx context.Context) error { return a.stop(ctx, in.Thing, server) }, nil
	case compute.ThingPluggedPort:
		id, of, err := compute.ParsePortUse(name)
		if err != nil || of != server {
			return nil, compute.Errorf(compute.Invalid, "%s is no port of server %s", name, server)
		}
		return func(ctx context.Context) error { return a.takePort(ctx, in.Thing, server, id) }, nil
	case compute.ThingHypervisorSecret:
		id, err := uuid.Parse(name)
		if err != nil {
			return nil, compute.Errorf(compute.Invalid, "%q is no id of a libvirt secret", name)
		}
		return func(ctx context.Context) error { return a.forgetSecret(ctx, server, compute.SecretID{UUID: id}) }, nil
	}
	return nil, in.Misdirected()
}

// stop leaves the domain off, and closed what the host decrypted for it. What has not waited
// is removed by the operation that started it, or by a delete that took the server from it,
// which ends with no domain either.
func (a *Activities) stop(ctx context.Context, running compute.Thing, server compute.ServerID) error {
	if err := a.unexpect(server, running.Operation); err != nil {
		return err
	}
	if running.State == compute.ThingWaiting {
		switch by, err := a.startedBy(ctx, server); {
		case err != nil:
			return err
		case by.op != "" && by.op != running.Operation:
			a.Logger.InfoContext(ctx, "left a domain running that was started again", "server", server, "by", by.op, "instead_of", running.Operation)
			return nil
		}
	}
	if _, err := a.turnOff(ctx, StopInput{Server: server}); err != nil {
		return err
	}
	return a.letGo(ctx, server)
}

// takePort takes the interface on a port from a domain, or its link where the guest keeps the device.
func (a *Activities) takePort(ctx context.Context, t compute.Thing, server compute.ServerID, id compute.PortID) error {
	switch by, err := a.startedBy(ctx, server); {
	case err != nil:
		return err
	case t.WaitedBefore(by.began):
		a.Logger.InfoContext(ctx, "left the interfaces of a guest that was booted since one was to go", "server", server, "port", id, "by", by.op)
		return nil
	}
	in := InterfaceInput{Server: server, Network: compute.Network{Port: &compute.Port{ID: &id}}}
	at, err := a.suspension(ctx, server)
	if err != nil {
		return err
	}
	if at.saved && !at.runs {
		return compute.Errorf(compute.Unavailable, "server %s: its guest is suspended, and has port %s when it is resumed", server, id)
	}
	err = a.unplug(ctx, in, min(briefUnplug, a.UnplugTimeout))
	if !compute.Is(err, compute.Conflict) {
		return err
	}
	a.Logger.WarnContext(ctx, "a guest keeps a device whose port goes; its link is taken", "server", server, "port", id, "error", err)
	return a.cutOff(ctx, in)
}

func (a *Activities) forgetSecret(ctx context.Context, server compute.ServerID, id compute.SecretID) error {
	if err := a.takeBack(ctx, server, []compute.SecretID{id}); err != nil {
		return compute.Errorf(kind(err), "server %s: secrets of its domain: %w", server, err)
	}
	return nil
}

// removeDomain leaves no domain, but for one that was started since the removal waits.
func (a *Activities) removeDomain(ctx context.Context, t compute.Thing, server compute.ServerID) error {
	by, err := a.startedBy(ctx, server)
	if err != nil {
		return err
	}
	if t.WaitedBefore(by.began) {
		a.Logger.InfoContext(ctx, "left a domain that was started since its removal waits", "server", server, "by", by.op, "since", t.Since)
		return nil
	}
	return a.undefine(ctx, server)
}

// undefine removes a server's domain. A start that was cut off may go on inside libvirtd,
// so the domain is looked for until it is not there.
func (a *Activities) undefine(ctx context.Context, server compute.ServerID) error {
	err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		flags, err := undefineFlags(l)
		if err != nil {
			return err
		}
		for {
			dom, found, err := lookup(l, server)
			if err != nil || !found {
				return err
			}
			if err := cut(l, server); err != nil {
				return err
			}
			if err := l.DomainUndefineFlags(dom, flags); gone(err) != nil {
				return err
			}
		}
	})
	if err == nil {
		err = a.letGo(ctx, server)
	}
	if err == nil {
		if err = os.Remove(a.socket(server)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		err = errors.Join(err, os.RemoveAll(a.screenFolder(server)))
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return compute.Errorf(kind(err), "server %s: removal of its machine: %w", server, err)
	}
	return nil
}

// undefineFlags take along what libvirt keeps of a domain, but for its UEFI variables and its TPM
// state, which are things of their own. A libvirt that cannot be told to keep state has no vTPMs.
func undefineFlags(l *libvirt.Libvirt) (libvirt.DomainUndefineFlagsValues, error) {
	flags := libvirt.DomainUndefineKeepNvram | libvirt.DomainUndefineManagedSave |
		libvirt.DomainUndefineSnapshotsMetadata | libvirt.DomainUndefineCheckpointsMetadata
	version, err := l.ConnectGetLibVersion()
	if version >= tpmLibvirt {
		flags |= libvirt.DomainUndefineKeepTpm
	}
	return flags, err
}
