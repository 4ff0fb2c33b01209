package domain

import (
	"context"
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"strongroom/compute"
)

// Seen is the activity domain.Seen: the domains of servers, and the libvirt secrets that
// name a server in their use.
func (a *Activities) Seen(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	var all []compute.Seen
	err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		domains, _, err := l.ConnectListAllDomains(1, 0)
		if err != nil {
			return err
		}
		secrets, _, err := l.ConnectListAllSecrets(1, 0)
		if err != nil {
			return err
		}
		for _, name := range serverDomains(domains) {
			all = append(all, compute.Seen{Kind: compute.ThingDomain, Name: name})
		}
		for _, s := range secrets {
			if serverOf(s) != "" {
				all = append(all, compute.Seen{Kind: compute.ThingHypervisorSecret, Name: uuid.UUID(s.UUID).String()})
			}
		}
		return nil
	})
	if err != nil {
		return compute.SeenResult{}, err
	}
	return in.PageOf(all), nil
}

// serverDomains gives the names of those that are servers' domains.
func serverDomains(domains []libvirt.Domain) []string {
	var names []string
	for _, d := range domains {
		id, ok := strings.CutPrefix(d.Name, "instance-")
		if _, err := uuid.Parse(id); ok && err == nil {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return names
}
