package main

import (
	"context"
	"fmt"
	"time"

	"strongroom/activities/domain"
)

// What a host does where libvirt cannot filter the traffic of guests (host.traffic_filter).
const (
	filterRequired = "required" // it does not start
	filterOptional = "optional" // it says so in its log
	filterOff      = "off"      // it filters nothing anywhere
)

// networks gives the networks of the configuration by uuid.
func (h HostConfig) networks() map[string]domain.Network {
	out := map[string]domain.Network{}
	for _, n := range h.Networks {
		out[n.UUID] = domain.Network{Name: n.Network, Bridge: n.Bridge}
	}
	return out
}

// privateNetworks gives the projects that networks are limited to.
func (h HostConfig) privateNetworks() map[string][]string {
	out := map[string][]string{}
	for _, n := range h.Networks {
		if len(n.Projects) > 0 {
			out[n.UUID] = n.Projects
		}
	}
	return out
}

// mostSparePorts bounds host.spare_pci_ports: firmware gives each a part of what addresses there are.
const mostSparePorts = 16

// checkPlugging refuses what no machine can be given, and no guest be asked for.
func (h HostConfig) checkPlugging() error {
	if h.SparePCIPorts < 0 || h.SparePCIPorts > mostSparePorts {
		return fmt.Errorf("host.spare_pci_ports: %d: it must be 0 to %d", h.SparePCIPorts, mostSparePorts)
	}
	if h.UnplugTimeout < time.Second || h.UnplugTimeout > 30*time.Minute {
		return fmt.Errorf("host.unplug_timeout: %s: it must be 1s to 30m", h.UnplugTimeout)
	}
	return nil
}

// trafficFilter chooses the network filter of the guests' interfaces, "" for none (H8).
func (h HostConfig) trafficFilter(r *run, client *domain.Client) (string, error) {
	switch h.TrafficFilter {
	case filterOff:
		return "", nil
	case filterRequired, filterOptional:
	default:
		return "", fmt.Errorf("host.traffic_filter %q: it must be %s, %s or %s", h.TrafficFilter, filterRequired, filterOptional, filterOff)
	}
	ctx, cancel := context.WithTimeout(r, 30*time.Second)
	defer cancel()
	err := client.CheckFilter(ctx, domain.NoMACSpoofing)
	switch {
	case err == nil:
		return domain.NoMACSpoofing, nil
	case h.TrafficFilter == filterOptional:
		r.log.Warn("guests may send with addresses that are not theirs", "error", err)
		return "", nil
	}
	return "", fmt.Errorf("guests could send with addresses that are not theirs; set host.traffic_filter to accept that: %w", err)
}
