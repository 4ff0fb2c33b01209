// Package legacy moves the keys of servers whose disks were encrypted before each disk
// had a key of its own (EE-35).
package legacy

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// Keys are the keys of such servers.
type Keys struct {
	Pool       *pgxpool.Pool
	Encryption compute.DMCrypt // of their disks; default compute.DefaultLegacyEncryption
}

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
func (k Keys) Leftovers(ctx context.Context) ([]Leftover, error) {
	out := []Leftover{}
	for after := int64(0); ; {
		page, err := schema.New(k.Pool).LegacyServers(ctx, schema.LegacyServersParams{After: after, Most: leftoverPage})
		if err != nil || len(page) == 0 {
			return out, fence.Unavailable(err)
		}
		for _, row := range page {
			after = row.Number
			left := Leftover{Server: row.ID, Number: row.Number}
			err := fence.Transaction(ctx, k.Pool, func(q *schema.Queries) error {
				key, err := lockKey(ctx, q, row.ID)
				if err != nil || key == nil {
					return err
				}
				_, err = k.disks(ctx, q, row.ID, *key)
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

// Move moves a server's legacy key into its disks, in one transaction: the
// disks have it when the server has it no more. moved is false when there was none:
// another call was first. Conflict: its disks cannot have the key; nothing changed.
func (k Keys) Move(ctx context.Context, server compute.ServerID) (moved bool, err error) {
	err = fence.Transaction(ctx, k.Pool, func(q *schema.Queries) error {
		moved, err = k.MoveWith(ctx, q, server)
		return err
	})
	return moved && err == nil, err
}

// MoveWith is Move as a part of a transaction.
func (k Keys) MoveWith(ctx context.Context, q *schema.Queries, server compute.ServerID) (bool, error) {
	key, err := lockKey(ctx, q, server)
	if err != nil || key == nil {
		return false, err
	}
	disks, err := k.disks(ctx, q, server, *key)
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
	if err := keepKey(ctx, q, server, *key); err != nil {
		return false, err
	}
	return true, q.ClearLegacyKey(ctx, server)
}

// keepKey puts a key on the ledger, so that it goes with its server.
func keepKey(ctx context.Context, q *schema.Queries, server compute.ServerID, key compute.SecretID) error {
	s, err := schema.LoadServer(ctx, q, server)
	if err != nil {
		return err
	}
	first, err := q.FirstOperation(ctx, server)
	if err != nil {
		return err
	}
	op := compute.Operation{ID: compute.OperationID(first), ServerID: server}
	if op.ID == "" { // it is older than what is kept of operations
		op.ID = compute.NewOperationID()
	}
	t := op.LegacyKey(s, key)
	if err := ledger.Open(ctx, q, []compute.Thing{t}); err != nil {
		return err
	}
	return q.LegacyKeyPresent(ctx, schema.LegacyKeyPresentParams{Place: t.Place, Name: t.Name})
}

// lockKey locks a server's legacy key; nil: it has none.
func lockKey(ctx context.Context, q *schema.Queries, server compute.ServerID) (*compute.SecretID, error) {
	key, err := q.LockLegacyKey(ctx, server)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no key is no error
	}
	return key, err
}

func (k Keys) disks(ctx context.Context, q *schema.Queries, server compute.ServerID, key compute.SecretID) ([]compute.Disk, error) {
	how := k.Encryption
	if how == (compute.DMCrypt{}) {
		how = compute.DefaultLegacyEncryption
	}
	options, err := how.Options()
	if err != nil {
		return nil, err
	}
	s, err := schema.LoadServer(ctx, q, server)
	if err != nil {
		return nil, err
	}
	return s.WithLegacyKey(key, options)
}
