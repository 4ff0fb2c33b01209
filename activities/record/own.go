package record

import (
	"context"

	"strongroom/compute"
	"strongroom/schema"
)

// ownOperation is an operation without arguments that nobody asked for. There is no token.
func ownOperation(kind compute.OperationKind, server compute.ServerID, project string) compute.Operation {
	return compute.Operation{
		ID: compute.NewOperationID(), ServerID: server, Kind: kind, State: compute.OperationAccepted,
		Credential: compute.MemberCredential(project), Arguments: []byte("{}"),
	}
}

func insertOwn(ctx context.Context, q *schema.Queries, op compute.Operation) error {
	return q.InsertOperation(ctx, schema.InsertOperationParams{
		ID: op.ID, ServerID: op.ServerID.UUID, Kind: op.Kind, ProjectID: op.Credential.ProjectID, UserID: op.Credential.UserID,
		CredentialID: op.Credential.ID, Arguments: op.Arguments, State: op.State,
	})
}
