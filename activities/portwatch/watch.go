// Package portwatch looks at the ports of servers that the network service said had changed while an operation was at work on
// them, or while it could not be asked.
package portwatch

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/port"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// Watch keeps what the network service says of ports. Several may be at work at once.
type Watch struct {
	Pool    *pgxpool.Pool
	Service port.Service
}

// Pass looks at the ports that changed. Those that it cannot look at wait for the next pass.
func (w *Watch) Pass(ctx context.Context) error {
	rows, err := schema.New(w.Pool).ListNetworkChanges(ctx)
	failure := fence.Unavailable(err)
	for _, row := range rows {
		failure = errors.Join(failure, w.renew(ctx, row))
	}
	return failure
}

func (w *Watch) renew(ctx context.Context, row schema.ListNetworkChangesRow) error {
	now, err := port.Renew(ctx, w.Service, row.ProjectID, row.ID, row.Networks)
	if err != nil {
		return err
	}
	if now == nil {
		now = row.Networks
	}
	was, err := json.Marshal(row.Networks)
	if err != nil {
		return err
	}
	_, err = schema.New(w.Pool).RenewServerNetworks(ctx, schema.RenewServerNetworksParams{ID: row.ID, Was: was, Networks: now, Seen: row.NetworkChanges, Whole: true})
	return fence.Unavailable(err) // where something else changed them meanwhile, the next pass looks again
}
