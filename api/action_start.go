package api

import (
	"context"
	"time"

	"strongroom/compute"
	"strongroom/schema"
)

// How patiently workflows are started after their rows were committed. What is
// given up here is started by the sweeper.
const (
	launchWait  = time.Second      // that the client is kept waiting
	launchLimit = 10 * time.Second // for one request
	endingWait  = 2 * time.Second  // for the end of the operation before
	endingStep  = 50 * time.Millisecond
)

// launch starts the workflows of committed operations. From the commit on the
// client's answer is a success: whatever fails here is not his.
func (a *API) launch(ctx context.Context, operations []compute.Operation) {
	a.seeThrough(ctx, launchWait, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, launchLimit)
		defer cancel()
		for _, op := range operations {
			if err := a.start(ctx, op); err != nil {
				a.config.Logger.WarnContext(ctx, "starting an operation: it will be started later",
					"operation", op.ID, "kind", op.Kind, "server", op.ServerID, "error", err)
			}
		}
	})
}

// seeThrough does what is to come to its end also when the client goes away, and
// waits for that at most so long.
func (a *API) seeThrough(ctx context.Context, wait time.Duration, do func(context.Context)) {
	ctx = context.WithoutCancel(ctx)
	done := make(chan struct{})
	a.begun.Go(func() {
		defer close(done)
		do(ctx)
	})
	select {
	case <-done:
	case <-time.After(wait):
	}
}

// Wait waits until what answered requests began is through, or the context ends. No
// request may come any more.
func (a *API) Wait(ctx context.Context) {
	through := make(chan struct{})
	go func() {
		defer close(through)
		a.begun.Wait()
	}()
	select {
	case <-through:
	case <-ctx.Done():
	}
}

// start starts one workflow. A Conflict is the end of the operation before: its
// server was let go in the record a moment before its execution closes.
func (a *API) start(ctx context.Context, op compute.Operation) error {
	until := time.Now().Add(endingWait)
	for {
		err := a.config.Operations.Start(ctx, op)
		if !compute.Is(err, compute.Conflict) || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(endingStep):
		}
	}
}

// insertOperation writes an operation down and, sealed, the token that it acts
// with: for as long as it lasts.
func insertOperation(r *Request, q *schema.Queries, op compute.Operation) error {
	row := schema.InsertOperationParams{
		ID: op.ID, ServerID: op.ServerID, Kind: op.Kind, ProjectID: op.Credential.ProjectID, UserID: op.Credential.UserID,
		CredentialID: op.Credential.ID, Arguments: op.Arguments, State: op.State,
	}
	if op.State.Settled() {
		now := r.api.config.Now()
		row.StartedAt, row.FinishedAt = &now, &now
	} else if err := q.InsertCredential(r.Context(), schema.InsertCredentialParams{
		ID: op.Credential.ID, ProjectID: op.Credential.ProjectID, UserID: op.Credential.UserID, Sealed: r.sealed(op.Credential.ID),
	}); err != nil {
		return err
	}
	return q.InsertOperation(r.Context(), row)
}
