package domain

import (
	"context"
	"errors"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// Evict ensures that the guest of a server does not run that left this host while the host was
// down. One that an operation started which began since then is left alone: the server came
// back. Its domain and disks stay: they wait on the ledger.
func (a *Activities) Evict(ctx context.Context, server compute.ServerID, since time.Time) error {
	unlock, err := a.lock(ctx, server)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := a.Client.Power(ctx, server)
	if err != nil || state == compute.PowerNone || state == compute.PowerShutdown {
		return err
	}
	by, err := a.startedBy(ctx, server)
	if err != nil || by.began.After(since) {
		return err
	}
	if _, err := a.turnOff(ctx, StopInput{Server: server}); err != nil {
		return err
	}
	a.Logger.WarnContext(ctx, "stopped the guest of a server that was evacuated from this host", "server", server, "since", since)
	return a.letGo(ctx, server)
}

// NoAutostart has libvirt start none of the host's servers by itself: when the host comes back,
// another one may run them. Others' domains are left alone.
func (a *Activities) NoAutostart(ctx context.Context) error {
	return a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		all, _, err := l.ConnectListAllDomains(1, libvirt.ConnectListDomainsPersistent|libvirt.ConnectListDomainsAutostart)
		for _, d := range all {
			if server := serverOfDomain(d); d.Name == compute.InstanceName(server) {
				a.Logger.WarnContext(ctx, "libvirt was told to start a server with the host: strongroom starts servers, and took that back", "server", server)
				err = errors.Join(err, gone(l.DomainSetAutostart(d, 0)))
			}
		}
		return err
	})
}
