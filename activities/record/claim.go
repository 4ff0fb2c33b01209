package record

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// ClaimInput asks for a host. Not names hosts that were tried already.
type ClaimInput struct {
	durable.OperationInput
	Plan compute.Server   `json:"plan"`
	Not  []compute.HostID `json:"not,omitempty"`
}

// ClaimResult is the host that took the server.
type ClaimResult struct {
	Host compute.HostID `json:"host"`
	Name string         `json:"name"`
}

// Claim is the activity record.Claim: it chooses a host and books the server's
// resources on it in one transaction, so that any number of creates at once
// never overcommit a host. A claim that the operation has already is kept.
// NoHost: none can take the server.
func (a *Activities) Claim(ctx context.Context, in ClaimInput) (ClaimResult, error) {
	var out ClaimResult
	err := a.tx(ctx, func(q *schema.Queries) error {
		held, err := q.GetClaim(ctx, in.Server)
		if err == nil && held.OperationID == in.Operation && !slices.Contains(in.Not, held.HostID) {
			name, err := q.HostName(ctx, held.HostID)
			out = ClaimResult{Host: held.HostID, Name: name}
			return err
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err := q.DeleteClaimOf(ctx, schema.DeleteClaimOfParams{ServerID: in.Server, OperationID: in.Operation}); err != nil {
			return err
		}
		out, err = claim(ctx, q, in)
		return err
	})
	return out, err
}

func claim(ctx context.Context, q *schema.Queries, in ClaimInput) (ClaimResult, error) {
	rows, err := q.HostsWithUse(ctx)
	if err != nil {
		return ClaimResult{}, err
	}
	var hosts []compute.Host
	zone := map[compute.HostID]string{}
	for _, row := range rows {
		if !slices.Contains(in.Not, row.ID) {
			hosts = append(hosts, Host(row))
			zone[row.ID] = row.AvailabilityZone
		}
	}
	want := in.Plan.Flavor.Resources()
	for _, host := range compute.Candidates(hosts, compute.RequestOf(in.Plan), time.Now()) {
		// The row lock decides between claims at once; what was read above was
		// only for the choice.
		if _, err := q.LockHost(ctx, host.ID); err != nil {
			return ClaimResult{}, err
		}
		used, err := q.HostUse(ctx, host.ID)
		if err != nil {
			return ClaimResult{}, err
		}
		host.Used = compute.Resources{VCPUs: int(used.VCPUs), MemoryMB: int(used.MemoryMB), DiskGB: int(used.DiskGB)}
		if !host.Fits(want) {
			continue
		}
		return ClaimResult{Host: host.ID, Name: host.Name}, book(ctx, q, in, host, zone[host.ID])
	}
	return ClaimResult{}, compute.Errorf(compute.NoHost, compute.NoValidHost)
}

func book(ctx context.Context, q *schema.Queries, in ClaimInput, host compute.Host, zone string) error {
	want := in.Plan.Flavor.Resources()
	if err := q.InsertClaim(ctx, schema.InsertClaimParams{
		ServerID: in.Server, HostID: host.ID, OperationID: in.Operation,
		VCPUs: int32(want.VCPUs), MemoryMB: int32(want.MemoryMB), DiskGB: int32(want.DiskGB),
	}); err != nil {
		return err
	}
	return fenced(q.SetServerPlaced(ctx, schema.SetServerPlacedParams{
		ID: in.Server, CurrentOperation: in.Operation, HostID: &host.ID, AvailabilityZone: zone,
	}))
}

// Unclaim is the activity record.Unclaim: the undo of Claim.
func (a *Activities) Unclaim(ctx context.Context, in durable.OperationInput) error {
	return a.tx(ctx, func(q *schema.Queries) error {
		if err := q.DeleteClaimOf(ctx, schema.DeleteClaimOfParams{ServerID: in.Server, OperationID: in.Operation}); err != nil {
			return err
		}
		// The server may have gone over to its delete, which has its own view of the host.
		_, err := q.SetServerPlaced(ctx, schema.SetServerPlacedParams{ID: in.Server, CurrentOperation: in.Operation})
		return err
	})
}

// Host gives a hosts row with its use as the field knows it.
func Host(row schema.HostsWithUseRow) compute.Host {
	return compute.Host{
		ID: row.ID, Name: row.Name, Traits: row.Traits, Networks: row.Networks,
		Capacity: compute.Resources{
			VCPUs:    int(float64(row.VCPUs) * row.VCPURatio),
			MemoryMB: int(float64(row.MemoryMB)*row.MemoryRatio) - int(row.ReservedMemoryMB),
			DiskGB:   int(float64(row.DiskGB) * row.DiskRatio),
		},
		Used:    compute.Resources{VCPUs: int(row.VcpusUsed), MemoryMB: int(row.MemoryMbUsed), DiskGB: int(row.DiskGbUsed)},
		Servers: int(row.Servers), Disabled: row.Disabled, LastSeen: row.LastSeen, ForcedDown: row.ForcedDown,
	}
}
