package main

import (
	"context"
	"encoding/json"

	"strongroom/worker/gateway"
)

// describe is what the host's row says.
func (s *hostActivities) describe(ctx context.Context, h HostConfig) (gateway.HostReport, error) {
	d, err := s.domain.Describe(ctx, h.SwtpmEnabled)
	if err != nil {
		return gateway.HostReport{}, err
	}
	cpu, err := json.Marshal(d.CPU)
	if err != nil {
		return gateway.HostReport{}, err
	}
	return gateway.HostReport{
		Address: h.Address, AgentURL: h.AgentURL, Traits: append([]string{}, d.Traits...), Networks: append([]string{}, d.Networks...), NetworkProjects: h.privateNetworks(),
		VCPUs: int32(d.Capacity.VCPUs), MemoryMB: int32(d.Capacity.MemoryMB), DiskGB: int32(d.Capacity.DiskGB),
		VCPURatio: h.CPURatio, MemoryRatio: h.MemoryRatio, DiskRatio: h.DiskRatio, ReservedMemoryMB: int32(h.ReservedMemoryMB),
		HypervisorType: d.HypervisorType, HypervisorVersion: int64(d.HypervisorVersion), CPUInfo: cpu,
		AvailabilityZone: h.AvailabilityZone,
	}, nil
}
