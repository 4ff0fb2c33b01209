package schema

import (
	"context"

	"github.com/google/uuid"

	"strongroom/compute"
)

// LoadServer reads a server with its disks, vTPM, shares and system metadata.
func LoadServer(ctx context.Context, q *Queries, id compute.ServerID) (compute.Server, error) {
	row, err := q.GetServer(ctx, id)
	if err != nil {
		return compute.Server{}, err
	}
	disks, err := q.GetServerDisks(ctx, id)
	if err != nil {
		return compute.Server{}, err
	}
	system, err := q.GetServerSystemMetadata(ctx, id)
	if err != nil {
		return compute.Server{}, err
	}
	s, err := row.WithDisks(disks)
	if err != nil {
		return compute.Server{}, err
	}
	for _, m := range system {
		if s.System == nil {
			s.System = map[string]string{}
		}
		s.System[m.Key] = m.Value
	}
	shares, err := q.ServerShares(ctx, id)
	if err != nil {
		return compute.Server{}, err
	}
	for _, row := range shares {
		s.Shares = append(s.Shares, row.Mapping())
	}
	if s.TPM != nil {
		if id, err := uuid.Parse(s.System[compute.SystemTPMSecret]); err == nil {
			s.TPM.Secret = &compute.SecretID{UUID: id}
		}
	}
	return s, nil
}
