package schema

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/compute"
)

// LoadAffinity reads with which other servers a server may share its host, and which host the
// operation was asked to take. In a transaction that claims a host the group is locked: what it
// says of a policy that refuses hosts stays true until the transaction ends. The group's lock comes
// before those of hosts.
func LoadAffinity(ctx context.Context, q *Queries, server compute.ServerID, op compute.OperationID, locked bool) (c compute.Affinity, err error) {
	hints, err := q.ServerHints(ctx, server)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if hints.RequestedBy == op {
		c.Host = hints.HostID
	}
	if err := addGroup(ctx, q, &c, server, hints, locked); err != nil {
		return c, err
	}
	if c.Apart, _, err = hostsOf(ctx, q, hints.DifferentHost); err != nil {
		return c, err
	}
	c.Beside, c.IsTied, err = hostsOf(ctx, q, hints.SameHost)
	return c, err
}

func addGroup(ctx context.Context, q *Queries, c *compute.Affinity, server compute.ServerID, hints ServerHintsRow, locked bool) error {
	if hints.GroupID == nil {
		return nil
	}
	policy := compute.GroupPolicy(hints.Policy)
	if locked && policy.IsHard() {
		if rows, err := q.LockServerGroup(ctx, *hints.GroupID); err != nil || rows == 0 { // deleted meanwhile
			return err
		}
	}
	c.Policy, c.Most = policy, int(hints.MaxPerHost)
	rows, err := q.GroupHosts(ctx, GroupHostsParams{GroupID: hints.GroupID, ServerID: server})
	for _, row := range rows {
		c.Members = append(c.Members, row.HostID)
	}
	return err
}

// hostsOf gives the hosts of servers, and whether any of the servers is still there.
func hostsOf(ctx context.Context, q *Queries, servers []uuid.UUID) (hosts []compute.HostID, there bool, err error) {
	if len(servers) == 0 {
		return nil, false, nil
	}
	rows, err := q.ServersHosts(ctx, servers)
	for _, row := range rows {
		for _, id := range row.Hosts {
			hosts = append(hosts, compute.HostID{UUID: id})
		}
	}
	return hosts, len(rows) > 0, err
}
