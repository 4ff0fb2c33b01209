package schema

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
)

// Host gives a hosts row with its use as the field knows it.
func (row HostsWithUseRow) Host() compute.Host {
	groupMB := 0
	if row.GroupMB != nil {
		groupMB = int(*row.GroupMB)
	}
	return compute.Host{
		ID: row.ID, Name: row.Name, Zone: row.Zone, Aggregates: compute.ReadAggregateMetadata(row.AggregateMetadata),
		Traits: row.Traits, Networks: row.Networks, Private: row.NetworkProjects,
		Capacity: compute.Resources{
			VCPUs:    int(float64(row.VCPUs) * row.VCPURatio),
			MemoryMB: int(float64(row.MemoryMB)*row.MemoryRatio) - int(row.ReservedMemoryMB),
			DiskGB:   int(float64(row.DiskGB) * row.DiskRatio),
			GroupMB:  groupMB,
		},
		Used:    compute.Resources{VCPUs: int(row.VcpusUsed), MemoryMB: int(row.MemoryMbUsed), DiskGB: int(row.DiskGbUsed), GroupMB: int(row.GroupMBUsed)},
		Servers: int(row.Servers), Disabled: row.Disabled, LastSeen: row.LastSeen, ForcedDown: row.ForcedDown || row.ForgottenAt != nil,
		Revoked: row.Revoked, Groups: row.GroupMB != nil,
		TPMStorage: row.TPMStorage, DiskStorage: row.DiskStorage, Default: row.DefaultFormat,
	}
}

// Hosts gives the hosts of rows, each with the limits of networks that all of them know, also
// those that are full, down or disabled; but not those that were forgotten or revoked (H8).
func Hosts(rows []HostsWithUseRow) []compute.Host {
	var out, known []compute.Host
	for _, row := range rows {
		out = append(out, row.Host())
		if row.ForgottenAt == nil && !row.Revoked {
			known = append(known, row.Host())
		}
	}
	private := compute.PrivateNetworks(known)
	for i := range out {
		out[i].Private = private
	}
	return out
}

// MayEnable refuses, with Conflict, to have a host take servers again that is being drained. It locks
// the host: no drain begins before the transaction ends.
func MayEnable(ctx context.Context, q *Queries, id compute.HostID) error {
	host, err := q.LockHost(ctx, id)
	if err != nil {
		return err
	}
	drain, err := q.DrainOfHost(ctx, id.UUID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	case !drain.State.Settled():
		return compute.Errorf(compute.Conflict, "host %s is being drained (%s): cancel that first, with strongroom host drain %s --cancel", host.Name, drain.ID, host.Name)
	}
	return nil
}
