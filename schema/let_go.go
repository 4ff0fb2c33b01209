package schema

import (
	"context"

	"strongroom/compute"
)

// LetGo lets go what waits for a host that never comes back, and gives it: nobody removes it any more. The state of a vTPM that
// was to be put back on storage that it shares with another host is that one's to put back, and files that were to be removed there that one's to remove.
func LetGo(ctx context.Context, q *Queries, host compute.HostID) ([]Ledger, error) {
	if err := q.PassKeptTPM(ctx, host.UUID); err != nil {
		return nil, err
	}
	if err := q.PassWaitingDisks(ctx, host.UUID); err != nil {
		return nil, err
	}
	return q.ReleaseWaitingOn(ctx, &host)
}
