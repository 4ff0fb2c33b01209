package record

import (
	"context"
	"fmt"

	"strongroom/compute"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// mostResumes is how many servers BeginResumes takes, at most.
const mostResumes = 20

// BeginResumes gives servers that went off with their host to operations that start them
// (host.resume_guests_state_on_host_boot). These are still to be started. Of a server whose
// keys nobody may read now it leaves a start that failed and says so (TPM-15).
func (a *Activities) BeginResumes(ctx context.Context) ([]compute.Operation, error) {
	due, err := schema.New(a.Pool).DueResumes(ctx, mostResumes)
	if err != nil {
		return nil, fence.Unavailable(err)
	}
	return beginEach(ctx, due, func(id compute.ServerID) (compute.Operation, bool, error) { return a.beginResume(ctx, id) })
}

func (a *Activities) beginResume(ctx context.Context, id compute.ServerID) (op compute.Operation, won bool, err error) {
	err = a.transaction(ctx, func(q *schema.Queries) error {
		won = false
		if err := schema.RunsHere(ctx, q, id); compute.Is(err, compute.Conflict) {
			return nil // later
		} else if err != nil {
			return err
		}
		rows, err := q.ForgetResume(ctx, id)
		if err != nil || rows == 0 {
			return err
		}
		s, err := schema.LoadServer(ctx, q, id)
		if err != nil {
			return err
		}
		op = ownOperation(compute.OpStart, id, s.ProjectID)
		if !s.StartsUnattended() {
			if err := outbox.Accept(ctx, q, op, nil); err != nil {
				return err
			}
			why := fmt.Sprintf("The host was restarted, and server %s was not started again: only its project's own requests can "+
				"read its keys (secret security \"user\"). Start it yourself.", id)
			const event = "resume_guest"
			if err := openStep(ctx, q, op.ID, &Open{Event: event}); err != nil {
				return err
			}
			if err := closeStep(ctx, q, op.ID, &Close{Event: event, Error: why}); err != nil {
				return err
			}
			_, err := q.SettleOperation(ctx, schema.SettleOperationParams{ID: op.ID, State: compute.OperationFailed, Message: &why})
			return err
		}
		rows, err = q.TakeServer(ctx, schema.TakeServerParams{
			ID: id, Task: compute.Start.Transition.Task, OperationID: op.ID, FromVmState: compute.VMStopped,
			FromTaskState: compute.TaskNone, ThroughLock: true,
		})
		won = rows > 0
		if err != nil || !won {
			return err
		}
		return outbox.Accept(ctx, q, op, nil)
	})
	return op, won && err == nil, err
}
