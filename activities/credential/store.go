// Package credential resolves references to credentials: to sealed tokens and to trusts,
// which the database keeps as long as they are needed.
package credential

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/openstack"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/seal"
)

// Store finds credentials in the database.
type Store struct {
	Pool   *pgxpool.Pool
	Box    *seal.Box // that opens tokens
	Logger *slog.Logger

	after schema.SecretSum // the sum at which the last look for old seals ended; the watch's alone
	lost  sync.Map         // attachments whose export location cannot be opened, logged
}

var _ openstack.Authorities = (*Store)(nil)

// Authority implements openstack.Authorities. A token is kept until its operation
// ends, a trust until its server is deleted. One that cannot be unsealed, since the key
// file was replaced, is as good as none: Forbidden.
func (s *Store) Authority(ctx context.Context, cred compute.Credential) (openstack.Authority, error) {
	row, err := schema.New(s.Pool).GetCredential(ctx, cred.ID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return openstack.Authority{}, compute.Errorf(compute.Forbidden, "credential %s stands for nothing any more", cred.ID)
	case err != nil:
		return openstack.Authority{}, compute.Errorf(compute.Unavailable, "the database: %w", err)
	}
	out := openstack.Authority{ProjectID: row.ProjectID}
	if row.TrustID != nil {
		out.TrustID = *row.TrustID
		return out, nil
	}
	token, err := s.Box.Unseal(compute.Credential{ID: row.ID, ProjectID: row.ProjectID, UserID: row.UserID}, row.Sealed)
	if err != nil {
		// Nothing opens it later either. To whoever acts with it, it is a credential that is
		// gone: the next one is tried, and what none removes waits for one (H9).
		return openstack.Authority{}, compute.Errorf(compute.Forbidden, "credential %s stands for nothing any more: %w", cred.ID, err)
	}
	out.Token = secret.New(token)
	return out, nil
}
