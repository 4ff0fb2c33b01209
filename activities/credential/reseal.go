package credential

import (
	"context"
	"errors"

	"strongroom/schema"
)

// Reseal seals with the first key what another one sealed and what rests for longer than an operation
// lasts: where shares are exported, and what passphrases are compared with. The other key may then be taken out of the file. What no key of the
// file opens is left as it is: a share is logged once, and a passphrase is compared again once a gateway has read it anew.
func (s *Store) Reseal(ctx context.Context) error {
	return errors.Join(s.resealShares(ctx), s.resealSums(ctx))
}

func (s *Store) resealShares(ctx context.Context) error {
	q := schema.New(s.Pool)
	rows, err := q.SharesOfOtherSeals(ctx, s.Box.Prefix())
	if err != nil {
		return err
	}
	var anew int64
	for _, row := range rows {
		location, err := s.Box.Unseal(row.SealedFor(), row.ExportLocation)
		if err != nil {
			if _, logged := s.lost.LoadOrStore(row.ID, true); !logged {
				s.Logger.WarnContext(ctx, "where a share is exported cannot be opened any more", "attachment", row.ID, "server", row.ServerID, "share", row.ShareID, "error", err)
			}
			continue
		}
		sealed, err := q.SealShareAnew(ctx, schema.SealShareAnewParams{ID: row.ID, Sealed: s.Box.Seal(row.SealedFor(), location), Was: row.ExportLocation})
		if err != nil {
			return err
		}
		anew += sealed
	}
	if anew > 0 {
		s.Logger.InfoContext(ctx, "export locations of shares were sealed anew, with the first key of credentials.key", "attachments", anew)
	}
	return nil
}

// mostSums are sealed in one pass, so that it ends in time; the next one goes on behind them.
const mostSums = 1000

func (s *Store) resealSums(ctx context.Context) error {
	q := schema.New(s.Pool)
	rows, err := q.SumsOfOtherSeals(ctx, schema.SumsOfOtherSealsParams{Prefix: s.Box.Prefix(), AfterServer: s.after.ServerID.UUID, AfterSecret: s.after.SecretID.UUID, Most: mostSums})
	if err != nil {
		return err
	}
	s.after = schema.SecretSum{} // from the first one again, where these are the last
	if len(rows) == mostSums {
		s.after = rows[mostSums-1]
	}
	var anew int64
	defer func() {
		if anew > 0 {
			s.Logger.InfoContext(ctx, "fingerprints of keys were sealed anew, with the first key of credentials.key", "secrets", anew)
		}
	}()
	for _, row := range rows {
		sum, ok := s.Box.UnsealSum(row.ServerID, row.SecretID, row.Sealed)
		if !ok {
			continue
		}
		sealed, err := q.SealSumAnew(ctx, schema.SealSumAnewParams{
			ServerID: row.ServerID, SecretID: row.SecretID, Sealed: s.Box.SealSum(row.ServerID, row.SecretID, sum), Was: row.Sealed,
		})
		if err != nil {
			return err
		}
		anew += sealed
	}
	return nil
}
