package placement

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// TPMPeers is the activity placement.TPMPeers: the other hosts that have the states of vTPMs on the
// same storage as a host (TPM-39), as they said last.
func (a *Activities) TPMPeers(ctx context.Context, id compute.HostID) ([]compute.HostID, error) {
	peers, err := schema.New(a.Pool).TPMPeers(ctx, id)
	return peers, fence.Unavailable(err)
}

// HostAgent is the activity placement.HostAgent: how other hosts reach a host. Conflict: it is not
// known, or says no https address (host.agent_url).
func (a *Activities) HostAgent(ctx context.Context, id compute.HostID) (compute.Agent, error) {
	row, err := schema.New(a.Pool).HostAgent(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return compute.Agent{}, compute.Errorf(compute.Conflict, "there is no host %s", id)
	}
	if err != nil {
		return compute.Agent{}, fence.Unavailable(err)
	}
	if row.AgentURL == "" {
		return compute.Agent{}, compute.Errorf(compute.Conflict, "host %s says no address of its agent", row.Name)
	}
	return compute.Agent{Host: id, Name: row.Name, URL: row.AgentURL}, nil
}
