package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/schema"
)

// noteSum notes what a passphrase of a server is, as the key manager has it, so that another host can tell later whether the one that it
// has it from tells the truth. Who has the database alone learns nothing of it.
func (s *Server) noteSum(ctx context.Context, server compute.ServerID, id compute.SecretID, p *secret.Passphrase) error {
	if is, err := s.sumOf(ctx, server, id); err != nil {
		return err
	} else if fits, err := p.Fits(is); fits || err != nil {
		return err
	}
	sum, err := p.Sum()
	if err != nil {
		return err
	}
	return unavailable(pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		q := schema.New(tx)
		if err := q.DeleteOldSecretSums(ctx, server); err != nil {
			return err
		}
		return q.PutSecretSum(ctx, schema.PutSecretSumParams{ServerID: server, SecretID: id, Sealed: s.Seal.SealSum(server, id, sum)})
	}))
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

// keptSecrets are secrets of a server.
type keptSecrets struct {
	Server  compute.ServerID   `json:"server"`
	Secrets []compute.SecretID `json:"secrets"`
}

// mostKept bounds how many a host asks about: a server has one for each disk, one under its root disk, and its vTPM's.
const mostKept = 256

// Comparable gives those of the secrets of a server, which is on this host, whose values could be compared with what the key manager has, if the host
// handed them on.
func (c *Client) Comparable(ctx context.Context, server compute.ServerID, secrets []compute.SecretID) ([]compute.SecretID, error) {
	var out keptSecrets
	err := c.ask(ctx, http.MethodPost, pathComparable, keptSecrets{server, secrets}, &out)
	return out.Secrets, err
}

func (s *Server) comparable(c *call) (any, error) {
	in, err := read[keptSecrets](c.body)
	if err != nil {
		return nil, err
	}
	if len(in.Secrets) > mostKept {
		return nil, compute.Errorf(compute.Invalid, "%d secrets are more than a server has", len(in.Secrets))
	}
	if err := c.requireOn(c.Context(), in.Server); err != nil {
		return nil, err
	}
	out := keptSecrets{Server: in.Server, Secrets: []compute.SecretID{}}
	for _, id := range in.Secrets {
		sum, err := s.sumOf(c.Context(), in.Server, id)
		if err != nil {
			return nil, err
		}
		if sum != nil {
			out.Secrets = append(out.Secrets, id)
		}
	}
	return out, nil
}
