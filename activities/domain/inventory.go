package domain

import (
	"context"
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
)

// Inventory is the activity domain.Inventory.
func (a *Activities) Inventory(ctx context.Context) (InventoryResult, error) {
	var got InventoryResult
	err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		domains, _, err := l.ConnectListAllDomains(1, 0)
		if err != nil {
			return err
		}
		secrets, _, err := l.ConnectListAllSecrets(1, 0)
		if err != nil {
			return err
		}
		got = InventoryResult{Domains: serverDomains(domains)}
		for _, s := range secrets {
			if serverOf(s) != "" {
				got.Secrets = append(got.Secrets, uuid.UUID(s.UUID).String())
			}
		}
		slices.Sort(got.Secrets)
		return nil
	})
	return got, err
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
