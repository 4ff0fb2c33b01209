package schema

import (
	"context"

	"strongroom/compute"
)

// RunsHere refuses, with Conflict, to boot a server that another host than its own may still
// run, and one whose TPM state is not yet what it was before a move that failed.
func RunsHere(ctx context.Context, q *Queries, id compute.ServerID) error {
	waits, err := q.TPMWaits(ctx, id.UUID)
	switch {
	case err != nil:
		return err
	case waits:
		return compute.Errorf(compute.Conflict, "The state of the vTPM of instance %s is still to be put back on its host. Try again when that was done.", id)
	}
	return RunsNowhereElse(ctx, q, id)
}

// RunsNowhereElse refuses, with Conflict, to boot a server that another host than its own may
// still run.
func RunsNowhereElse(ctx context.Context, q *Queries, id compute.ServerID) error {
	may, err := q.RunsElsewhere(ctx, id.UUID)
	if err != nil || !may {
		return err
	}
	return compute.Errorf(compute.Conflict, "Instance %s may still run on a host that does not answer. Try again when that is back.", id)
}
