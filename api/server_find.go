package api

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// findServer gives the server that the path names, if the caller may see it and
// the rule lets him do what he wants. Another project's server is not there.
func (a *API) findServer(r *Request, rule string) (serverRow, error) {
	row, err := a.seekServer(r, rule)
	if err == nil && row.Server.DeletedAt != nil {
		return serverRow{}, noServer(r.Param("id"))
	}
	return row, err
}

// seekServer is findServer that finds deleted servers too.
func (a *API) seekServer(r *Request, rule string) (serverRow, error) {
	id, err := uuid.Parse(r.Param("id"))
	if err != nil {
		return serverRow{}, noServer(r.Param("id"))
	}
	row, err := a.db.FindServer(r.Context(), compute.ServerID{UUID: id})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Server.ProjectID != r.ProjectID() && !r.IsAdmin() {
		return serverRow{}, noServer(r.Param("id"))
	}
	if err != nil {
		return serverRow{}, err
	}
	return row, r.EnforceOn(rule, row.Server.ProjectID, row.Server.UserID)
}

func noServer(id string) error { return fault.NotFound("Instance %s could not be found.", id) }

// checkLock refuses what a lock keeps others than administrators from.
func checkLock(r *Request, s schema.Server) error {
	if s.LockedBy != nil && !r.IsAdmin() {
		return fault.Conflict("Instance %s is locked", s.ID)
	}
	return nil
}

// transact runs do in one transaction. Who waits too long for a row is told to try again.
func (a *API) transact(ctx context.Context, do func(*schema.Queries) error) error {
	return fence.InTransaction(ctx, a.config.Pool, do)
}
