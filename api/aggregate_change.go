package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
)

// How Nova begins the refusals of changes: the number of the aggregate and the reason follow.
const (
	cannotAddHost    = "Cannot add host to aggregate %d. Reason: %s."
	cannotRemoveHost = "Cannot remove host from aggregate %d. Reason: %s."
	cannotUpdate     = "Cannot update aggregate %d. Reason: %s."
	cannotSet        = "Cannot update metadata of aggregate %d. Reason: %s."
)

func (a *API) updateAggregate(r *Request) (any, error) {
	var body struct {
		Aggregate struct {
			Name *string
			Zone *string `json:"availability_zone"`
		}
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	metadata := map[string]*string{}
	if r.Has("aggregate", compute.AggregateZone) {
		metadata[compute.AggregateZone] = body.Aggregate.Zone
	}
	return a.changeAggregate(r, func(q *schema.Queries, row schema.Aggregate) (any, error) {
		if name := body.Aggregate.Name; name != nil {
			row.Name = strings.TrimSpace(*name)
		}
		return writeAggregate(r, q, row, metadata, cannotUpdate)
	})
}

func (a *API) setAggregateMetadata(r *Request) (any, error) {
	var body struct {
		Set struct{ Metadata map[string]*string } `json:"set_metadata"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	return a.changeAggregate(r, func(q *schema.Queries, row schema.Aggregate) (any, error) {
		return writeAggregate(r, q, row, body.Set.Metadata, cannotSet)
	})
}

// writeAggregate writes an aggregate's name, and metadata of which null removes a key. A zone stays or is replaced.
func writeAggregate(r *Request, q *schema.Queries, row schema.Aggregate, metadata map[string]*string, refusal string) (any, error) {
	zone, named := metadata[compute.AggregateZone]
	if named && deref(zone) == "" {
		return nil, fault.BadRequest(refusal, row.Number, "Aggregate "+row.Name+" does not support empty named availability zone")
	}
	for key, value := range metadata {
		if value == nil {
			delete(row.Metadata, key)
		} else {
			row.Metadata[key] = *value
		}
	}
	write := func() error {
		return nameTaken(q.ChangeAggregate(r.Context(), schema.ChangeAggregateParams{Number: row.Number, Name: row.Name, Metadata: row.Metadata}), row.Name)
	}
	if err := inZone(r.Context(), q, row, named, refusal, write); err != nil {
		return nil, err
	}
	return answerAggregate(r, q, row.Number)
}

// inZone runs a change of an aggregate that may bring all of its hosts into its zone.
func inZone(ctx context.Context, q *schema.Queries, row schema.Aggregate, named bool, refusal string, write func() error) error {
	if !named {
		return write()
	}
	locked, err := q.LockAggregateHosts(ctx, row.Number)
	if err != nil {
		return err
	}
	hosts := make([]uuid.UUID, len(locked))
	for i, id := range locked {
		hosts[i] = id.UUID
	}
	reason, err := otherZones(ctx, q, row, hosts)
	if err == nil && reason != "" {
		err = fault.BadRequest(refusal, row.Number, reason)
	}
	if err != nil {
		return err
	}
	moved, err := zonesMoved(ctx, q, hosts, write)
	if err == nil && moved.servers > 0 {
		err = fault.BadRequest(refusal, row.Number, "One or more hosts contain instances in this zone")
	}
	return err
}

func (a *API) addAggregateHost(r *Request) (any, error) {
	var body struct {
		Add struct{ Host string } `json:"add_host"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	return a.changeAggregate(r, func(q *schema.Queries, row schema.Aggregate) (any, error) {
		host, err := lockNamedHost(r.Context(), q, body.Add.Host)
		if err != nil {
			return nil, err
		}
		hosts := []uuid.UUID{host.UUID}
		reason, err := otherZones(r.Context(), q, row, hosts)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			return nil, fault.Conflict(cannotAddHost, row.Number, reason)
		}
		moved, err := zonesMoved(r.Context(), q, hosts, func() error {
			n, err := q.AddAggregateHost(r.Context(), schema.AddAggregateHostParams{AggregateNumber: row.Number, HostID: host})
			if err == nil && n == 0 {
				err = fault.Conflict("Aggregate %d already has host %s.", row.Number, body.Add.Host)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if moved.servers > 0 {
			return nil, fault.Conflict(cannotAddHost, row.Number, moved.reason("added to"))
		}
		return answerAggregate(r, q, row.Number)
	})
}

// removeAggregateHost says of whatever is not there that the host is not, as Nova does.
func (a *API) removeAggregateHost(r *Request) (any, error) {
	var body struct {
		Remove struct{ Host string } `json:"remove_host"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	none := fault.NotFound("Cannot remove host %s in aggregate %s", body.Remove.Host, r.Param("id"))
	answer, err := a.changeAggregate(r, func(q *schema.Queries, row schema.Aggregate) (any, error) {
		host, err := lockNamedHost(r.Context(), q, body.Remove.Host)
		if err != nil {
			return nil, err
		}
		moved, err := zonesMoved(r.Context(), q, []uuid.UUID{host.UUID}, func() error {
			n, err := q.RemoveAggregateHost(r.Context(), schema.RemoveAggregateHostParams{AggregateNumber: row.Number, HostID: host})
			if err == nil && n == 0 {
				err = none
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if moved.servers > 0 {
			return nil, fault.Conflict(cannotRemoveHost, row.Number, moved.reason("removed from"))
		}
		return answerAggregate(r, q, row.Number)
	})
	var refused *fault.Fault
	if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		err = none
	}
	return answer, err
}

// lockNamedHost finds a host by its name. No server comes to it before the transaction ends.
func lockNamedHost(ctx context.Context, q *schema.Queries, name string) (compute.HostID, error) {
	found, err := q.NamedHost(ctx, name)
	var host schema.Host
	if err == nil {
		host, err = q.LockHost(ctx, found.ID)
	}
	if errors.Is(err, pgx.ErrNoRows) || host.ForgottenAt != nil {
		err = fault.NotFound("Compute host %s could not be found.", name)
	}
	return host.ID, err
}

// otherZones says that hosts are in another zone than an aggregate's by other aggregates; "" if they are not.
func otherZones(ctx context.Context, q *schema.Queries, row schema.Aggregate, hosts []uuid.UUID) (reason string, err error) {
	zone, named := row.Metadata[compute.AggregateZone]
	if !named {
		return "", nil
	}
	zones, err := q.OtherZonesOfHosts(ctx, schema.OtherZonesOfHostsParams{Hosts: hosts, Number: row.Number, Zone: zone})
	if len(zones) > 0 {
		reason = "One or more hosts already in availability zone(s) ['" + strings.Join(zones, "', '") + "']"
	}
	return reason, err
}

// zoneMove is what a change of an aggregate does to the zones of hosts.
type zoneMove struct {
	from, to string // of the last host that is in another zone by it
	servers  int64  // of all hosts that are
}

// zonesMoved runs a change and says what it does to the zones of hosts, which are locked. What is on record of
// their servers would not be true any more: whoever asks refuses it.
func zonesMoved(ctx context.Context, q *schema.Queries, hosts []uuid.UUID, change func() error) (move zoneMove, err error) {
	before, err := q.ZonesOfHosts(ctx, hosts)
	if err != nil {
		return move, err
	}
	if err := change(); err != nil {
		return move, err
	}
	after, err := q.ZonesOfHosts(ctx, hosts)
	if err != nil {
		return move, err
	}
	var moved []uuid.UUID
	for i, was := range before {
		if is := after[i]; is.Zone != was.Zone {
			moved = append(moved, is.ID.UUID)
			move.from, move.to = was.Zone, is.Zone
		}
	}
	if len(moved) > 0 {
		move.servers, err = q.CountServersOn(ctx, moved)
	}
	return move, err
}

func (m zoneMove) reason(how string) string {
	return fmt.Sprintf("The host cannot be %s the aggregate as the availability zone of the host would change from '%s' to '%s' but the host already has %d instance(s). "+
		"Changing the AZ of an existing instance is not supported by this action. Move the instances away from this host then try again. "+
		"If you need to move the instances between AZs then you can use shelve_offload and unshelve to achieve this", how, m.from, m.to, m.servers)
}
