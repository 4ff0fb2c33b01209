// Package placement chooses hosts for servers and keeps the claims: how much of a host's
// resources each server has. Its activities are local ones of the control worker.
package placement

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// The activities.
var (
	// Claim chooses a host.
	Claim = durable.Activity[ClaimInput, ClaimResult]{
		Name: "placement.Claim", Queue: durable.RecordQueue,
		Summary: func(ClaimInput) string { return "choose a host" },
	}
	// Unclaim is the undo of Claim.
	Unclaim = durable.Activity[durable.OperationInput, durable.None]{
		Name: "placement.Unclaim", Queue: durable.RecordQueue,
		Summary: func(durable.OperationInput) string { return "give back the claim on the host" },
	}
	// HostAgent says how other hosts reach one.
	HostAgent = durable.Activity[compute.HostID, compute.Agent]{
		Name: "placement.HostAgent", Queue: durable.RecordQueue,
		Summary: func(compute.HostID) string { return "look up the address of the host's agent" },
	}
	// TPMPeers says which hosts share the storage of the states of vTPMs.
	TPMPeers = durable.Activity[compute.HostID, []compute.HostID]{
		Name: "placement.TPMPeers", Queue: durable.RecordQueue,
		Summary: func(compute.HostID) string { return "look up which hosts share the storage of TPM states" },
	}
)

// Activities are the local activities on claims.
type Activities struct {
	Pool   *pgxpool.Pool
	Logger *slog.Logger // nil: nobody is told why no host takes a server
}

// Register registers the activities under their names.
func (a *Activities) Register(r durable.Registry) {
	Claim.Register(r, a.Claim)
	Unclaim.Register(r, durable.NoResult(a.Unclaim))
	HostAgent.Register(r, a.HostAgent)
	TPMPeers.Register(r, a.TPMPeers)
}

// ClaimInput asks for a host. Not names hosts that were tried already.
type ClaimInput struct {
	durable.OperationInput
	Plan compute.Server   `json:"plan"`
	Not  []compute.HostID `json:"not,omitempty"`
	Only *compute.HostID  `json:"only,omitempty"` // nil: any other
	// Alone says that the server is on no host: claims that it has are of operations that
	// were terminated, and go as the new one comes.
	Alone bool `json:"alone,omitempty"`
	// TPMOf is the host that has the state of the server's vTPM, and cannot be asked for it: hosts that have it on
	// the same storage come first (TPM-39), and while one of them does not answer, no other is taken. nil: there is none to look for.
	TPMOf  *compute.HostID  `json:"tpm_of,omitempty"`
	Silent []compute.HostID `json:"silent,omitempty"` // those of Not that took no work
	// DisksOf is the host that has the server's disks, which are to be kept, and cannot be asked for them: hosts that share
	// their storage come before all others, as for TPMOf. nil: the server goes to no host that sees files of its own there.
	DisksOf *compute.HostID `json:"disks_of,omitempty"`
	// OnShared says that none but hosts that share the storage of the disks will do.
	OnShared bool `json:"on_shared,omitempty"`
}

// ClaimResult is the host that took the server.
type ClaimResult struct {
	Host compute.HostID `json:"host"`
	Name string         `json:"name"`
	// Format is that of the server's disks for which nobody asks for one (EE-03).
	Format compute.DiskFormat `json:"default_format"`
	Zone   string             `json:"availability_zone,omitempty"` // the host's
	// Disks says that the host has the server's disks, on storage that it shares with ClaimInput.DisksOf.
	Disks bool `json:"disks,omitempty"`
}

// Claim is the activity placement.Claim: it chooses a host and claims the server's
// resources on it, so that any number of claims at once never overcommit a
// host, nor break the policy of the server's group. A claim that the operation has already is kept. A server that has a place
// stays there: it has two claims until its operation decides.
// A host whose folders are on the storage of another one that has files of the server takes it only where these are kept (DisksOf):
// what is made there and what is removed on the other host would be the same files.
// NoHost: none can take the server. Conflict: none that has the state of its vTPM or its disks (TPMOf, DisksOf), and one that does not answer may. Corrupt:
// the disks of a new server are larger than what it counts for.
func (a *Activities) Claim(ctx context.Context, in ClaimInput) (ClaimResult, error) {
	if in.Plan.VMState == compute.VMBuilding {
		if err := in.Plan.CheckDisks(); err != nil {
			return ClaimResult{}, err
		}
	}
	hosts, refusal, err := a.candidates(ctx, in)
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
	return ClaimResult{}, refusal
}

// candidates gives the hosts that could take the server, the best first; the
// host that it has already comes before all others. What is read here is only
// for the choice: claimOn decides. refusal is why none takes it, if none of them does.
func (a *Activities) candidates(ctx context.Context, in ClaimInput) (out []schema.HostsWithUseRow, refusal, err error) {
	refusal = compute.Errorf(compute.NoHost, compute.NoValidHost)
	err = fence.Owned(ctx, a.Pool, in.Operation, in.Server, func(q *schema.Queries) error {
		rows, err := q.HostsWithUse(ctx, nil)
		if err != nil {
			return err
		}
		held, err := heldClaim(ctx, q, in)
		if err != nil {
			return err
		}
		byID := map[compute.HostID]schema.HostsWithUseRow{}
		not := slices.Clone(in.Not)
		for _, row := range rows {
			byID[row.ID] = row
			if held != nil && row.ID == held.HostID {
				out, not = append(out, row), append(not, row.ID)
			}
		}
		want := compute.RequestOf(in.Plan)
		if in.TPMOf != nil {
			row := byID[*in.TPMOf]
			want.TPMStorage = row.Host().TPMStorage
		}
		sees, err := hostsThatSee(ctx, q, in)
		if err != nil {
			return err
		}
		if in.DisksOf != nil {
			want.DiskStorage = byID[*in.DisksOf].DiskStorage
		}
		not = append(not, sees...)
		if in.OnShared {
			for _, row := range rows {
				if in.DisksOf == nil || row.DiskStorage == "" || row.DiskStorage != want.DiskStorage {
					not = append(not, row.ID)
				}
			}
		}
		if want.Affinity, err = schema.LoadAffinity(ctx, q, in.Server, in.Operation, false); err != nil {
			return err
		}
		all, now := schema.Hosts(rows), time.Now()
		fit := compute.Candidates(compute.Among(all, not, in.Only), want, now)
		if from := cmp.Or(in.TPMOf, in.DisksOf); from != nil && in.Only == nil {
			fit, refusal = want.Keep(fit, all, *from, in.Silent, now)
		}
		if in.DisksOf != nil {
			lost := byID[*in.DisksOf]
			fit, refusal = want.Cut(lost.Host(), fit, refusal)
		}
		if len(fit) == 0 && len(compute.Candidates(compute.Among(all, in.Not, in.Only), want, now)) > 0 && compute.Is(refusal, compute.NoHost) {
			refusal = compute.Errorf(compute.NoHost, "%s %s", compute.NoValidHost, whyNotShared(in))
		}
		for _, host := range fit {
			out = append(out, byID[host.ID])
		}
		if len(out) == 0 {
			a.tellWhy(ctx, in, all, want, now)
		}
		return nil
	})
	return out, refusal, err
}

// mostReasons bounds what the log says of a server that no host takes.
const mostReasons = 20

// tellWhy logs why no host takes a server, which its user is not told: names of hosts, and what is free there, are their operator's.
func (a *Activities) tellWhy(ctx context.Context, in ClaimInput, hosts []compute.Host, want compute.Request, now time.Time) {
	if a.Logger == nil {
		return
	}
	why := make([]string, 0, mostReasons)
	for _, h := range hosts[:min(len(hosts), mostReasons)] {
		reason := h.Unfit(want, now)
		if len(compute.Among([]compute.Host{h}, in.Not, in.Only)) == 0 {
			reason = "not among those that the operation may take"
		}
		why = append(why, h.Name+": "+cmp.Or(reason, "has, or shares, files of the server"))
	}
	a.Logger.WarnContext(ctx, "no host takes a server", "server", in.Server, "operation", in.Operation, "hosts", len(hosts), "why", why)
}

// hostsThatSee are the hosts that the server does not go to since they see files of its own, which are another host's.
func hostsThatSee(ctx context.Context, q *schema.Queries, in ClaimInput) ([]compute.HostID, error) {
	see := schema.HostsThatSeeDisksOfParams{ServerID: in.Server.UUID}
	if in.DisksOf != nil {
		see.ButOf = &in.DisksOf.UUID
	}
	return q.HostsThatSeeDisksOf(ctx, see)
}

// whyNotShared is why no host is left where the storage of disks decided.
func whyNotShared(in ClaimInput) string {
	if in.OnShared {
		return compute.InvalidShared + "."
	}
	return compute.SharedDiskStorage
}

// heldClaim gives the claim that the operation has, unless its host could not take
// the server.
func heldClaim(ctx context.Context, q *schema.Queries, in ClaimInput) (*schema.Claim, error) {
	held, err := q.GetClaim(ctx, schema.GetClaimParams{ServerID: in.Server, OperationID: in.Operation})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && slices.Contains(in.Not, held.HostID) {
		return nil, nil
	}
	return &held, err
}

// claimOn claims the server's resources on the host if it fits there, in one transaction. A
// result without a name says that it does not.
func (a *Activities) claimOn(ctx context.Context, in ClaimInput, row schema.HostsWithUseRow) (ClaimResult, error) {
	var out ClaimResult
	err := fence.Owned(ctx, a.Pool, in.Operation, in.Server, func(q *schema.Queries) error {
		held, err := heldClaim(ctx, q, in)
		if err != nil {
			return err
		}
		if held != nil {
			row, err := q.ClaimedHost(ctx, held.HostID)
			out = ClaimResult{Host: held.HostID, Name: row.Name, Format: compute.Host{Default: row.DefaultFormat}.DefaultFormat(), Zone: row.Zone}
			if err == nil {
				out.Disks, err = hasDisks(ctx, q, in, held.HostID)
			}
			return err
		}
		affinity, err := schema.LoadAffinity(ctx, q, in.Server, in.Operation, true)
		if err != nil || affinity.Unfit(row.ID) != "" {
			return err
		}
		host, err := lockHost(ctx, q, row)
		if err != nil || !takes(host, in.Plan) {
			return err
		}
		sees, err := hostsThatSee(ctx, q, in)
		if err != nil || slices.Contains(sees, host.ID) {
			return err
		}
		out = ClaimResult{Host: host.ID, Name: host.Name, Format: host.DefaultFormat(), Zone: host.Zone}
		if out.Disks, err = hasDisks(ctx, q, in, host.ID); err != nil {
			return err
		}
		return claim(ctx, q, in, host)
	})
	return out, err
}

// takes asks once more what may be another since the host was chosen.
func takes(host compute.Host, plan compute.Server) bool {
	return !host.Disabled && !host.Revoked && host.Outside(compute.RequestOf(plan)) == "" && host.Fits(plan.ResourcesOn(host))
}

// hasDisks reports whether a host has the disks that are to be kept.
func hasDisks(ctx context.Context, q *schema.Queries, in ClaimInput, host compute.HostID) (bool, error) {
	if in.DisksOf == nil {
		return false, nil
	}
	peers, err := q.DiskPeers(ctx, *in.DisksOf)
	return slices.Contains(peers, host), err
}

// lockHost decides between claims at once: the use of the host that it gives, and its availability zone, do not
// change before the transaction ends.
func lockHost(ctx context.Context, q *schema.Queries, row schema.HostsWithUseRow) (compute.Host, error) {
	locked, err := q.LockHost(ctx, row.ID)
	if err != nil {
		return compute.Host{}, err
	}
	used, err := q.HostUse(ctx, row.ID)
	host := row.Host()
	host.Disabled, host.Revoked = locked.Disabled, used.Revoked // a drain of it may have begun
	host.Zone, host.Aggregates = used.Zone, compute.ReadAggregateMetadata(used.AggregateMetadata)
	host.Used = compute.Resources{VCPUs: int(used.VCPUs), MemoryMB: int(used.MemoryMB), DiskGB: int(used.DiskGB), GroupMB: int(used.GroupMB)}
	return host, err
}

func claim(ctx context.Context, q *schema.Queries, in ClaimInput, host compute.Host) error {
	// A claim on a host that could not take the server goes as the new one comes.
	if in.Alone {
		if err := q.DeleteClaims(ctx, in.Server); err != nil {
			return err
		}
	} else if err := q.DeleteClaimOf(ctx, schema.DeleteClaimOfParams{ServerID: in.Server, OperationID: in.Operation}); err != nil {
		return err
	}
	want := in.Plan.ResourcesOn(host)
	if err := q.InsertClaim(ctx, schema.InsertClaimParams{
		ServerID: in.Server, HostID: host.ID, OperationID: in.Operation,
		VCPUs: int32(want.VCPUs), MemoryMB: int32(want.MemoryMB), DiskGB: int32(want.DiskGB), GroupMB: int64(want.GroupMB),
	}); err != nil {
		return err
	}
	return place(ctx, q, in.OperationInput, &host.ID, host.Zone)
}

// place says on which host the server is, unless another operation gave it a place.
func place(ctx context.Context, q *schema.Queries, in durable.OperationInput, host *compute.HostID, zone string) error {
	placed, err := q.HasOtherClaim(ctx, schema.HasOtherClaimParams{ServerID: in.Server, OperationID: in.Operation})
	if err != nil || placed {
		return err
	}
	_, err = q.SetServerPlaced(ctx, schema.SetServerPlacedParams{ID: in.Server, CurrentOperation: in.Operation, HostID: host, AvailabilityZone: zone})
	return err
}

// Unclaim is the activity placement.Unclaim: the undo of Claim.
func (a *Activities) Unclaim(ctx context.Context, in durable.OperationInput) error {
	return fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		if err := q.DeleteClaimOf(ctx, schema.DeleteClaimOfParams{ServerID: in.Server, OperationID: in.Operation}); err != nil {
			return err
		}
		// A delete that has taken over the server has its own view of the host.
		return place(ctx, q, in, nil, "")
	})
}
