package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// decision is an operation's point of no return.
type decision struct {
	durable.OperationInput
	close *Close
	open  *Open
	// alreadyDecided reports whether an earlier attempt passed it.
	alreadyDecided func(*schema.Queries) (bool, error)
	do             func(*schema.Queries) error
}

// decide passes a point of no return, and closes the step before it and opens the one
// after it in the same transaction.
func (a *Activities) decide(ctx context.Context, d decision) error {
	steps := func(q *schema.Queries) error {
		if err := closeStep(ctx, q, d.Operation, d.close); err != nil {
			return err
		}
		return openStep(ctx, q, d.Operation, d.open)
	}
	return a.closing(ctx, d.Operation, d.close, func() error {
		return fence.Decide(ctx, a.Pool, d.Operation, d.Server, func(q *schema.Queries) (bool, error) {
			decided, err := d.alreadyDecided(q)
			if err != nil || !decided {
				return false, err
			}
			return true, steps(q)
		}, func(q *schema.Queries) error {
			if err := steps(q); err != nil {
				return err
			}
			return d.do(q)
		})
	})
}

// setTPMSecret says which secret the server's vTPM has; nil: none.
func setTPMSecret(ctx context.Context, q *schema.Queries, server compute.ServerID, tpm *compute.TPM) error {
	if tpm == nil || tpm.Secret == nil {
		return q.DeleteSystemMetadata(ctx, schema.DeleteSystemMetadataParams{ServerID: server, Key: compute.SystemTPMSecret})
	}
	return q.SetSystemMetadata(ctx, schema.SetSystemMetadataParams{ServerID: server, Key: compute.SystemTPMSecret, Value: tpm.Secret.String()})
}
