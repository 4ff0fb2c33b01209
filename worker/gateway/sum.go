package gateway

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/schema"
)

// noteSum notes what a passphrase of a server is, as the key manager has it, so that another host can tell later whether the one that it
// has it from tells the truth. Who has the database alone learns nothing of it.
func (s *Server) noteSum(ctx context.Context, server compute.ServerID, id compute.SecretID, p *secret.Passphrase) error {
	sum, err := p.Sum()
	if err != nil {
		return err
	}
	return unavailable(schema.New(s.Pool).PutSecretSum(ctx, schema.PutSecretSumParams{ServerID: server, SecretID: id, Sealed: s.Seal.SealSum(server, id, sum)}))
}

// sumOf gives what was noted; nil: nothing, or with a key that is not in credentials.key any more.
func (s *Server) sumOf(ctx context.Context, server compute.ServerID, id compute.SecretID) ([]byte, error) {
	sealed, err := schema.New(s.Pool).GetSecretSum(ctx, schema.GetSecretSumParams{ServerID: server, SecretID: id})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, unavailable(err)
	}
	sum, _ := s.Seal.UnsealSum(server, id, sealed)
	return sum, nil
}
