package record

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
)

// Leftover is a server whose disks do not have its legacy key yet.
type Leftover struct {
	Server compute.ServerID `json:"server_id"`
	Number int64            `json:"-"`
	// Why says what keeps the key from being moved; empty: nothing does.
	Why string `json:"why,omitempty"`
}

// leftoverPage is how many servers are looked for at once.
const leftoverPage = 500

// Leftovers gives the servers with a legacy key (EE-35), the oldest first.
func (a *Activities) Leftovers(ctx context.Context) ([]Leftover, error) {
	out := []Leftover{}
	for after := int64(0); ; {
		page, err := schema.New(a.Pool).LegacyServers(ctx, schema.LegacyServersParams{After: after, Most: leftoverPage})
		if err != nil || len(page) == 0 {
			return out, unavailable(err)
		}
		for _, row := range page {
			after = row.Number
			left := Leftover{Server: row.ID, Number: row.Number}
			err := a.tx(ctx, func(q *schema.Queries) error {
				key, err := legacyKey(ctx, q, row.ID)
				if err != nil || key == nil {
					return err
				}
				_, err = a.legacyDisks(ctx, q, row.ID, *key)
				return err
			})
			if err != nil && !compute.Is(err, compute.Conflict) {
				return nil, err
			}
			if err != nil {
				left.Why = err.Error()
			}
			out = append(out, left)
		}
	}
}

// MoveLegacyKey moves a server's legacy key into its disks, in one transaction: the
// disks have it when the server has it no more. moved is false when there was none:
// another call was first. Conflict: its disks cannot have the key; nothing changed.
func (a *Activities) MoveLegacyKey(ctx context.Context, server compute.ServerID) (moved bool, err error) {
	err = a.tx(ctx, func(q *schema.Queries) error {
		moved, err = a.moveLegacyKey(ctx, q, server)
		return err
	})
	return moved && err == nil, err
}

func (a *Activities) moveLegacyKey(ctx context.Context, q *schema.Queries, server compute.ServerID) (bool, error) {
	key, err := legacyKey(ctx, q, server)
	if err != nil || key == nil {
		return false, err
	}
	disks, err := a.legacyDisks(ctx, q, server, *key)
	if err != nil {
		return false, err
	}
	for _, d := range disks {
		options, err := json.Marshal(d.EncryptionOptions)
		if err != nil {
			return false, err
		}
		if err := q.SetDiskEncryption(ctx, schema.SetDiskEncryptionParams{
			ID: d.ID, EncryptionSecret: d.Secret, EncryptionFormat: d.Format, EncryptionOptions: string(options),
		}); err != nil {
			return false, err
		}
	}
	return true, q.ClearLegacyKey(ctx, server)
}

// legacyKey locks a server's legacy key; nil: it has none.
func legacyKey(ctx context.Context, q *schema.Queries, server compute.ServerID) (*compute.SecretID, error) {
	key, err := q.LockLegacyKey(ctx, server)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no key is no error
	}
	return key, err
}

func (a *Activities) legacyDisks(ctx context.Context, q *schema.Queries, server compute.ServerID, key compute.SecretID) ([]compute.Disk, error) {
	how := a.Legacy
	if how == (compute.LegacyEncryption{}) {
		how = compute.DefaultLegacyEncryption
	}
	options, err := how.Options()
	if err != nil {
		return nil, err
	}
	s, err := LoadServer(ctx, q, server)
	if err != nil {
		return nil, err
	}
	return s.WithLegacyKey(key, options)
}

// meetsLegacyKey has an operation that boots a server move its legacy key first.
// What cannot be moved is left to the operator: `strongroom legacy status` tells.
func (a *Activities) meetsLegacyKey(ctx context.Context, q *schema.Queries, op schema.Operation) error {
	switch op.Kind {
	case compute.OpCreate, compute.OpStart, compute.OpReboot, compute.OpRebuild:
		_, err := a.moveLegacyKey(ctx, q, op.ServerID)
		if compute.Is(err, compute.Conflict) {
			return nil
		}
		return err
	}
	return nil
}
