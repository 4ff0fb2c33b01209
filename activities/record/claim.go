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
// resources on it, so that any number of creates at once never overcommit a
// host. A claim that the operation has already is kept.
// NoHost: none can take the server.
func (a *Activities) Claim(ctx context.Context, in ClaimInput) (ClaimResult, error) {
	hosts, err := a.candidates(ctx, in)
	if err != nil {
		return ClaimResult{}, err
	}
	for _, host := range hosts {
		// A transaction for each host: one that holds two hosts' locks would
		// sooner or later meet another that took them the other way round.
		out, err := a.claimOn(ctx, in, host)
		if err != nil || out.Name != "" {
			return out, err
		}
	}
	return ClaimResult{}, compute.Errorf(compute.NoHost, compute.NoValidHost)
}

// candidates gives the hosts that could take the server, the best first; the
// host that it has already comes before all others. What is read here is only
// for the choice: claimOn decides.
func (a *Activities) candidates(ctx context.Context, in ClaimInput) ([]schema.HostsWithUseRow, error) {
	var out []schema.HostsWithUseRow
	err := a.fencedTx(ctx, in.OperationInput, func(q *schema.Queries) error {
		rows, err := q.HostsWithUse(ctx)
		if err != nil {
			return err
		}
		held, err := heldClaim(ctx, q, in)
		if err != nil {
			return err
		}
		byID := map[compute.HostID]schema.HostsWithUseRow{}
		var hosts []compute.Host
		for _, row := range rows {
			byID[row.ID] = row
			if held != nil && row.ID == held.HostID {
				out = append(out, row)
			} else if !slices.Contains(in.Not, row.ID) {
				hosts = append(hosts, Host(row))
			}
		}
		for _, host := range compute.Candidates(hosts, compute.RequestOf(in.Plan), time.Now()) {
			out = append(out, byID[host.ID])
		}
		return nil
	})
	return out, err
}

// heldClaim gives the claim that the operation has, unless its host was tried
// in vain.
func heldClaim(ctx context.Context, q *schema.Queries, in ClaimInput) (*schema.Claim, error) {
	held, err := q.GetClaim(ctx, in.Server)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && (held.OperationID != in.Operation || slices.Contains(in.Not, held.HostID)) {
		return nil, nil
	}
	return &held, err
}

// claimOn books the server on the host if it fits there, in one transaction. A
// result without a name says that it does not.
func (a *Activities) claimOn(ctx context.Context, in ClaimInput, row schema.HostsWithUseRow) (ClaimResult, error) {
	var out ClaimResult
	err := a.fencedTx(ctx, in.OperationInput, func(q *schema.Queries) error {
		held, err := heldClaim(ctx, q, in)
		if err != nil {
			return err
		}
		if held != nil {
			name, err := q.HostName(ctx, held.HostID)
			out = ClaimResult{Host: held.HostID, Name: name}
			return err
		}
		host, err := lockHost(ctx, q, row)
		if err != nil || !host.Fits(in.Plan.Flavor.Resources()) {
			return err
		}
		out = ClaimResult{Host: host.ID, Name: host.Name}
		return book(ctx, q, in, row)
	})
	return out, err
}

// lockHost decides between claims at once: it gives the host with the use that
// stands until the transaction ends.
func lockHost(ctx context.Context, q *schema.Queries, row schema.HostsWithUseRow) (compute.Host, error) {
	if _, err := q.LockHost(ctx, row.ID); err != nil {
		return compute.Host{}, err
	}
	used, err := q.HostUse(ctx, row.ID)
	host := Host(row)
	host.Used = compute.Resources{VCPUs: int(used.VCPUs), MemoryMB: int(used.MemoryMB), DiskGB: int(used.DiskGB)}
	return host, err
}

func book(ctx context.Context, q *schema.Queries, in ClaimInput, host schema.HostsWithUseRow) error {
	// A claim on a host that was tried in vain goes as the new one comes.
	if err := q.DeleteClaimOf(ctx, schema.DeleteClaimOfParams{ServerID: in.Server, OperationID: in.Operation}); err != nil {
		return err
	}
	want := in.Plan.Flavor.Resources()
	if err := q.InsertClaim(ctx, schema.InsertClaimParams{
		ServerID: in.Server, HostID: host.ID, OperationID: in.Operation,
		VCPUs: int32(want.VCPUs), MemoryMB: int32(want.MemoryMB), DiskGB: int32(want.DiskGB),
	}); err != nil {
		return err
	}
	_, err := q.SetServerPlaced(ctx, schema.SetServerPlacedParams{
		ID: in.Server, CurrentOperation: in.Operation, HostID: &host.ID, AvailabilityZone: host.AvailabilityZone,
	})
	return err
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
		ID: row.ID, Name: row.Name, Zone: row.AvailabilityZone, Traits: row.Traits, Networks: row.Networks,
		Capacity: compute.Resources{
			VCPUs:    int(float64(row.VCPUs) * row.VCPURatio),
			MemoryMB: int(float64(row.MemoryMB)*row.MemoryRatio) - int(row.ReservedMemoryMB),
			DiskGB:   int(float64(row.DiskGB) * row.DiskRatio),
		},
		Used:    compute.Resources{VCPUs: int(row.VcpusUsed), MemoryMB: int(row.MemoryMbUsed), DiskGB: int(row.DiskGbUsed)},
		Servers: int(row.Servers), Disabled: row.Disabled, LastSeen: row.LastSeen, ForcedDown: row.ForcedDown,
	}
}
