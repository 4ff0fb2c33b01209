package schema

import "strongroom/compute"

// Operation gives the row as the field knows it.
func (op Operation) Operation() compute.Operation {
	out := compute.Operation{
		ID: op.ID, ServerID: op.ServerID, Kind: op.Kind, State: op.State,
		Credential: compute.Credential{ID: op.CredentialID, ProjectID: op.ProjectID, UserID: op.UserID},
		Arguments:  op.Arguments, AcceptedAt: op.AcceptedAt,
	}
	if op.SubjectID != nil {
		out.Subject = compute.Owner{Kind: op.SubjectKind, ID: *op.SubjectID}
	}
	if op.Message != nil {
		out.Message = *op.Message
	}
	return out
}
