package domain

import (
	"context"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// Running gives the servers whose domains are active on this host, paused ones
// too.
func (a *Activities) Running(ctx context.Context) (map[compute.ServerID]bool, error) {
	out := map[compute.ServerID]bool{}
	err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		active, _, err := l.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
		for _, d := range active {
			out[compute.ServerID{UUID: [16]byte(d.UUID)}] = true
		}
		return err
	})
	return out, err
}
