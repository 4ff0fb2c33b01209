package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
)

// departureReport says how far a live migration from a host is.
type departureReport struct {
	compute.Arrival
	compute.MigrationBytes
}

// departureAnswer says what is wished of it.
type departureAnswer struct {
	Wish compute.Wish `json:"wish"`
}

// MigrationAt says how far the live migration of a server from this host is, and gives what is
// wished of it. Forbidden: no operation moves the server from this host.
func (c *Client) MigrationAt(ctx context.Context, of compute.Arrival, at compute.MigrationBytes) (compute.Wish, error) {
	var out departureAnswer
	err := c.ask(ctx, http.MethodPost, pathDeparture, departureReport{of, at}, &out)
	return out.Wish, err
}

func departure(c *call) (any, error) {
	in, err := read[departureReport](c.body)
	if err != nil {
		return nil, err
	}
	return c.migrationAt(c.Context(), in)
}

func (r Records) migrationAt(ctx context.Context, in departureReport) (departureAnswer, error) {
	wish, err := schema.New(r.Pool).ReportMigration(ctx, schema.ReportMigrationParams{
		OperationID: in.Operation, ServerID: in.Server, Host: r.Host.UUID,
		MemoryTotal: in.MemoryTotal, MemoryRemaining: in.MemoryRemaining, MemoryProcessed: in.MemoryProcessed,
		DiskTotal: in.DiskTotal, DiskRemaining: in.DiskRemaining, DiskProcessed: in.DiskProcessed,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return departureAnswer{}, compute.Errorf(compute.Forbidden, "no operation %q moves server %s from this host", in.Operation, in.Server)
	}
	if err != nil {
		return departureAnswer{}, unavailable(err)
	}
	return departureAnswer{Wish: compute.Wish(wish)}, nil
}
