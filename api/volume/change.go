package volume

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"strongroom/schema"
)

// change is one change of a type, in one transaction with the row that tells who
// made it.
type change struct {
	*schema.Queries
	request *request
	target  schema.VolumeType // locked
}

// transact runs a change that has no target yet.
func (r *request) transact(do func(context.Context, change) error) error {
	return pgx.BeginFunc(r.context(), r.api.config.Pool, func(tx pgx.Tx) error {
		return do(r.context(), change{Queries: r.api.db.WithTx(tx), request: r})
	})
}

// change runs a change of the type in the path. Nobody else changes it meanwhile.
// A 404 when the caller does not see it.
func (r *request) change(do func(context.Context, change) error) error {
	id, err := r.typeID()
	if err != nil {
		return err
	}
	return r.transact(func(ctx context.Context, c change) error {
		c.target, err = c.LockVolumeType(ctx, schema.LockVolumeTypeParams{
			ID: id, Everyones: r.allowed(ruleIsAdmin), ProjectID: r.projectID(),
		})
		if err != nil {
			return missing(err, id)
		}
		return do(ctx, c)
	})
}

// The kinds of changes, named as the block storage service names its notifications.
const (
	typeCreated    = "volume_type.create"
	typeUpdated    = "volume_type.update"
	typeDeleted    = "volume_type.delete"
	specsCreated   = "volume_type_extra_specs.create"
	specUpdated    = "volume_type_extra_specs.update"
	specDeleted    = "volume_type_extra_specs.delete"
	accessAdded    = "volume_type_project.access.add"
	accessRemoved  = "volume_type_project.access.remove"
	encryptCreated = "volume_type_encryption.create"
	encryptUpdated = "volume_type_encryption.update"
	encryptDeleted = "volume_type_encryption.delete"
)

// record writes down who changed what. What was and what is are told as far as
// they were touched.
func (c change) record(ctx context.Context, action string, before, after any) error {
	row := schema.InsertVolumeTypeChangeParams{
		VolumeTypeID: c.target.ID, Name: c.target.Name, Action: action,
		RequestID: string(c.request.id), UserID: c.request.token.UserUUID(), ProjectID: c.request.projectID(),
	}
	var err error
	if row.Before, err = object(before); err != nil {
		return err
	}
	if row.After, err = object(after); err != nil {
		return err
	}
	return c.InsertVolumeTypeChange(ctx, row)
}

func object(v any) ([]byte, error) {
	if v == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(v)
}

// extraSpecs gives all extra specs of the target.
func (c change) extraSpecs(ctx context.Context) (specs, error) {
	text, err := c.VolumeTypeExtraSpecs(ctx, c.target.ID)
	if err != nil {
		return nil, err
	}
	var all specs
	return all, json.Unmarshal(text, &all)
}

// violated names the constraint that a statement broke, or "".
func violated(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.ConstraintName
	}
	return ""
}
