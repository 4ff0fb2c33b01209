package credential

import (
	"context"

	"strongroom/schema"
)

// Reseal seals with the first key what another one sealed and what rests for longer than an operation
// lasts: where shares are exported. The other key may then be taken out of the file. What no key of the
// file opens is left as it is, and logged once.
func (s *Store) Reseal(ctx context.Context) error {
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
