package schema

import "strongroom/compute"

// Intention is the row of a thing that is about to be made.
func Intention(t compute.Thing) IntendThingParams {
	return IntendThingParams{
		ID: t.ID, Kind: t.Kind, Place: t.Place, Name: t.Name, Reference: t.Reference,
		OwnerKind: t.Owner.Kind, OwnerID: t.Owner.ID, OperationID: t.Operation,
		CredentialID: t.Credential.ID, ProjectID: t.Credential.ProjectID, UserID: t.Credential.UserID,
	}
}

// Thing gives the row as the field knows it. hostName is that of the host that it is on.
func (row Ledger) Thing(hostName string) compute.Thing {
	t := compute.Thing{
		ID: row.ID, Kind: row.Kind, Place: row.Place, Name: row.Name, Reference: row.Reference,
		Owner: compute.Owner{Kind: row.OwnerKind, ID: row.OwnerID}, Operation: row.OperationID,
		Credential: compute.Credential{ID: row.CredentialID, ProjectID: row.ProjectID, UserID: row.UserID},
		State:      row.State, BlockedBy: row.BlockedBy, Reason: row.Reason, HostName: hostName,
	}
	if row.State == compute.ThingWaiting && row.WaitingSince != nil {
		t.Since = *row.WaitingSince
	}
	return t
}
