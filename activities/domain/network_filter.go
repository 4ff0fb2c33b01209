package domain

import (
	"context"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// NoMACSpoofing is libvirt's network filter against forged senders: a guest sends with the
// MAC address of its interface alone. Its IP addresses are its own affair, several and IPv6
// among them: clean-traffic lets nothing but IPv4 pass, of the address that it saw first.
const NoMACSpoofing = "no-mac-spoofing"

// CleanTraffic is libvirt's network filter for ports whose addresses are known: a guest sends with its MAC
// address and these IPv4 addresses alone, also in ARP, and nothing but IPv4 and ARP.
const CleanTraffic = "clean-traffic"

// CheckFilter says why libvirt cannot filter the traffic of interfaces by a network filter.
// NotFound: it has no filter of this name; Invalid: it has no driver for filters.
func (c *Client) CheckFilter(ctx context.Context, name string) error {
	err := c.Do(ctx, func(l *libvirt.Libvirt) error {
		_, err := l.NwfilterLookupByName(name)
		return err
	})
	switch {
	case err == nil:
		return nil
	case isCode(err, libvirt.ErrNoNwfilter):
		return compute.Errorf(compute.NotFound, "libvirt has no network filter %s, install libvirt-daemon-config-nwfilter: %w", name, err)
	case isCode(err, libvirt.ErrNoSupport):
		return compute.Errorf(compute.Invalid, "libvirt has no driver for network filters, install libvirt-daemon-driver-nwfilter: %w", err)
	}
	return err
}
