package record

import (
	"context"
	"time"

	"strongroom/compute"
	"strongroom/schema"
)

// Book is the ledger's side of the audit: what should exist, and on which hosts.
type Book struct {
	Hosts  []AuditHost           `json:"hosts"`
	Things []compute.LedgerEntry `json:"things"`
}

// AuditHost is a host that the audit asks.
type AuditHost struct {
	ID   compute.HostID `json:"id"`
	Name string         `json:"name"`
	Up   bool           `json:"up"`
}

// Ledger is the activity record.Ledger.
func (a *Activities) Ledger(ctx context.Context) (Book, error) {
	var out Book
	err := a.tx(ctx, func(q *schema.Queries) error {
		hosts, err := q.HostIDs(ctx)
		if err != nil {
			return err
		}
		for _, h := range hosts {
			view := compute.Host{LastSeen: h.LastSeen, ForcedDown: h.ForcedDown}
			out.Hosts = append(out.Hosts, AuditHost{ID: h.ID, Name: h.Name, Up: view.Up(time.Now())})
		}
		rows, err := q.OpenThings(ctx)
		for _, row := range rows {
			out.Things = append(out.Things, compute.LedgerEntry{
				Thing: compute.Thing{
					ID: row.ID, Kind: row.Kind, Place: row.Place, Name: row.Name, Reference: row.Reference, Server: row.ServerID,
					Operation: row.OperationID, State: row.State,
					Credential: compute.Credential{ID: row.CredentialID, ProjectID: row.ProjectID, UserID: row.UserID},
				},
				ServerDeleted: row.ServerDeleted, Busy: row.CurrentOperation != "",
			})
		}
		return err
	})
	return out, err
}
