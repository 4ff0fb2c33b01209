package domain

import (
	"context"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// PowerStates gives the servers whose domains are active on this host, each as running
// or as paused.
func (a *Activities) PowerStates(ctx context.Context) (map[compute.ServerID]compute.PowerState, error) {
	out := map[compute.ServerID]compute.PowerState{}
	err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		active, _, err := l.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
		if err != nil {
			return err
		}
		paused, _, err := l.ConnectListAllDomains(1, libvirt.ConnectListDomainsPaused)
		for _, d := range active {
			out[serverOfDomain(d)] = compute.PowerRunning
		}
		for _, d := range paused {
			out[serverOfDomain(d)] = compute.PowerPaused
		}
		return err
	})
	return out, err
}

// IsOff fails with Conflict while a server's guest runs, or is paused.
func (a *Activities) IsOff(ctx context.Context, id compute.ServerID) error {
	active, err := a.PowerStates(ctx)
	if _, runs := active[id]; err == nil && runs {
		return compute.Errorf(compute.Conflict, "the guest of server %s runs", id)
	}
	return err
}

func serverOfDomain(d libvirt.Domain) compute.ServerID {
	return compute.ServerID{UUID: [16]byte(d.UUID)}
}
