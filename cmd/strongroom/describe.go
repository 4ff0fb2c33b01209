package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"strongroom"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/worker/gateway"
)

// describe is what the host's row says.
func (s *hostActivities) describe(ctx context.Context, h HostConfig) (gateway.HostReport, error) {
	d, err := s.domain.Describe(ctx, h.SwtpmEnabled)
	if err != nil {
		return gateway.HostReport{}, err
	}
	s.tellLacks(ctx, d, h)
	if d.NoShares == "" && h.ShareAddress != "" && s.mount.MountsNFS(ctx) {
		d.Traits = append(d.Traits, compute.TraitNFSShares)
		slices.Sort(d.Traits)
	}
	if s.domain.SavesEncrypted() {
		d.Traits = append(d.Traits, compute.TraitEncryptedMemory)
		slices.Sort(d.Traits)
	}
	boot, err := os.ReadFile(h.BootID)
	if err != nil {
		return gateway.HostReport{}, err
	}
	cpu, err := json.Marshal(d.CPU)
	if err != nil {
		return gateway.HostReport{}, err
	}
	var storage string
	if h.SwtpmEnabled {
		id, err := s.tpm.Storage()
		if err != nil {
			return gateway.HostReport{}, fmt.Errorf("storage of TPM states: %w", err)
		}
		storage = id.String()
	}
	if err := s.lookAtStorage(h); err != nil {
		return gateway.HostReport{}, err
	}
	up, err := uptime("/proc", time.Now())
	if err != nil {
		return gateway.HostReport{}, err
	}
	return gateway.HostReport{
		Uptime: up, Address: h.Address, AgentURL: h.AgentURL, Traits: append([]string{}, d.Traits...), Networks: append([]string{}, d.Networks...), NetworkProjects: h.privateNetworks(),
		VCPUs: int32(d.Capacity.VCPUs), MemoryMB: int32(d.Capacity.MemoryMB), DiskGB: int32(d.Capacity.DiskGB),
		VCPURatio: h.CPURatio, MemoryRatio: h.MemoryRatio, DiskRatio: h.DiskRatio, ReservedMemoryMB: int32(h.ReservedMemoryMB),
		HypervisorType: d.HypervisorType, HypervisorVersion: int64(d.HypervisorVersion), CPUInfo: cpu,
		AvailabilityZone: h.AvailabilityZone, Release: strongroom.Version(), BootID: strings.TrimSpace(string(boot)), ResumeGuests: h.ResumeGuests, TPMStorage: storage,
		DefaultFormat: s.format, ShareAddress: h.ShareAddress, GroupMB: d.GroupMB, DiskStorage: s.storage,
	}, nil
}

// lookAtStorage learns which storage servers' folders are on, where the host shares it: once, when the folder was just seen to be the right
// one. A file system that goes away later would leave an empty folder, which is none of the host's own.
func (s *hostActivities) lookAtStorage(h HostConfig) error {
	if !h.ShareInstances || s.storage != "" {
		return nil
	}
	id, err := s.disk.Storage()
	if err != nil {
		return fmt.Errorf("storage of disks: %w", err)
	}
	s.storage = id.String()
	return nil
}

// tellLacks logs why servers can have no vTPM on this host (TPM-34), or no shares (SH-36): when it begins, when it is another, and when it ends.
func (s *hostActivities) tellLacks(ctx context.Context, d domain.Description, h HostConfig) {
	log := s.domain.Logger
	if why := d.NoTPM; why != s.noTPM && h.SwtpmEnabled {
		if s.noTPM = why; why != "" {
			log.WarnContext(ctx, "servers can have no vTPM on this host", "reason", why)
		} else {
			log.InfoContext(ctx, "servers can have a vTPM on this host again")
		}
	}
	if why := d.NoShares; why != s.noShares && h.Shares != "" {
		if s.noShares = why; why != "" {
			log.WarnContext(ctx, "servers can have no shares on this host", "reason", why)
		} else {
			log.InfoContext(ctx, "servers can have shares on this host again")
		}
	}
}
