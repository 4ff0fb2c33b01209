// Package outbox starts a Temporal execution for each operation that was committed in
// PostgreSQL: at once after the commit (Launcher) or, where that fails, later (Repairer).
package outbox

import (
	"context"

	"strongroom/compute"
	"strongroom/schema"
)

// Accept writes an operation's row and, sealed, the token that it acts with until it ends.
// Call it in the transaction in which the operation takes its server. An operation that
// is settled already gets neither a token nor an execution.
func Accept(ctx context.Context, q *schema.Queries, op compute.Operation, sealed []byte) error {
	row := schema.InsertOperationParams{
		ID: op.ID, ServerID: op.ServerID.UUID, Kind: op.Kind, ProjectID: op.Credential.ProjectID, UserID: op.Credential.UserID,
		CredentialID: op.Credential.ID, Arguments: op.Arguments, State: op.State,
		Settled: op.State.Settled(),
	}
	if op.Subject != (compute.Owner{}) {
		row.SubjectKind, row.SubjectID = op.Subject.Kind, &op.Subject.ID
	}
	if !op.State.Settled() && sealed != nil {
		if err := q.InsertCredential(ctx, schema.InsertCredentialParams{
			ID: op.Credential.ID, ProjectID: op.Credential.ProjectID, UserID: op.Credential.UserID, Sealed: sealed,
		}); err != nil {
			return err
		}
	}
	return q.InsertOperation(ctx, row)
}
