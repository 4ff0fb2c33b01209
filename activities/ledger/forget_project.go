package ledger

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// LeftIn tells what the ledger still has of projects.
var LeftIn = durable.Activity[LeftInInput, LeftInResult]{
	Name: "ledger.LeftIn", Queue: durable.RecordQueue,
	Summary: func(LeftInInput) string { return "count what the ledger has of projects that are gone" },
}

// LeftInInput names projects.
type LeftInInput struct {
	Projects []string `json:"projects"`
}

// LeftInResult has those of the projects that have something.
type LeftInResult struct {
	Left []compute.GoneProject `json:"left,omitempty"`
}

// LeftIn is the activity ledger.LeftIn.
func (a *Activities) LeftIn(ctx context.Context, in LeftInInput) (LeftInResult, error) {
	var out LeftInResult
	rows, err := schema.New(a.Pool).LeftInProjects(ctx, in.Projects)
	for _, row := range rows {
		out.Left = append(out.Left, compute.GoneProject{Project: row.ProjectID, Things: int(row.Things)})
	}
	return out, fence.Unavailable(err)
}

// ForgettableOf gives what ForgetProject would let go. Its errors are those of ForgetProject.
func ForgettableOf(ctx context.Context, pool *pgxpool.Pool, id string) ([]compute.Thing, error) {
	return inForgettable(ctx, pool, id, (*schema.Queries).WaitingInProject)
}

// ForgetProject releases what waits to be removed in the cloud's services of a project that the
// identity service does not know any more, of which its caller has made sure: no credential
// opens it. It gives what may still be there. What waits on hosts needs no credential and goes
// on waiting. The project's quotas go. Conflict: the project has servers, or something that is not waiting to go.
func ForgetProject(ctx context.Context, pool *pgxpool.Pool, id string) ([]compute.Thing, error) {
	return inForgettable(ctx, pool, id, func(q *schema.Queries, ctx context.Context, id string) ([]schema.Ledger, error) {
		if err := q.DeleteProjectQuotas(ctx, id); err != nil {
			return nil, err
		}
		return q.ReleaseWaitingInProject(ctx, id)
	})
}

func inForgettable(
	ctx context.Context, pool *pgxpool.Pool, id string, do func(*schema.Queries, context.Context, string) ([]schema.Ledger, error),
) ([]compute.Thing, error) {
	out := []compute.Thing{}
	err := fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		servers, err := q.ServersOfProject(ctx, id)
		if err != nil {
			return err
		}
		if servers > 0 {
			return compute.Errorf(compute.Conflict, "project %s still has %d servers: delete them first", id, servers)
		}
		rows, err := do(q, ctx, id)
		if err != nil {
			return err
		}
		out = out[:0] // a transaction may run twice
		for _, t := range rows {
			out = append(out, t.Thing(""))
		}
		left, err := q.LeftInProjects(ctx, []string{id})
		if err != nil {
			return err
		}
		waiting, err := q.WaitingInProject(ctx, id)
		if err != nil || len(left) == 0 {
			return err
		}
		if others := int(left[0].Things) - len(waiting); others > 0 {
			return compute.Errorf(compute.Conflict,
				"project %s still has %d things that operations have not given up: wait until these have ended", id, others)
		}
		return nil
	})
	return out, err
}
