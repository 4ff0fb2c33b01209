package schema

import (
	"context"

	"strongroom/compute"
)

// MayBegin refuses, with Conflict, an action on a server that another host than its own may still run, or whose TPM state is not
// yet what it was before a move that failed, where the action minds.
func MayBegin(ctx context.Context, q *Queries, of compute.Facts, id compute.ServerID) error {
	switch {
	case of.Kind == compute.OpEvacuate: // what waits to be put back waits for its host, which is dead
		return RunsNowhereElse(ctx, q, id)
	case of.RunsGuest(), of.Kind == compute.OpShelve:
		return RunsHere(ctx, q, id)
	case of.TakesTPM():
		return HasTPMBack(ctx, q, id)
	}
	return nil
}

// RunsHere refuses, with Conflict, to boot, or to shelve, a server that another host than its own may still
// run, and one whose TPM state is not yet what it was before a move that failed.
func RunsHere(ctx context.Context, q *Queries, id compute.ServerID) error {
	if err := HasTPMBack(ctx, q, id); err != nil {
		return err
	}
	return RunsNowhereElse(ctx, q, id)
}

// HasTPMBack refuses, with Conflict, a server whose TPM state is not yet what it was before a move, or the revert of one, that
// failed: the copy that is to be put back is all that there is of it.
func HasTPMBack(ctx context.Context, q *Queries, id compute.ServerID) error {
	waits, err := q.TPMWaits(ctx, id.UUID)
	if err != nil || !waits {
		return err
	}
	return compute.Errorf(compute.Conflict, "The state of the vTPM of instance %s is still to be put back on its host. Try again when that was done.", id)
}

// RunsNowhereElse refuses, with Conflict, to boot, or to shelve, a server that another host than its own may
// still run.
func RunsNowhereElse(ctx context.Context, q *Queries, id compute.ServerID) error {
	may, err := q.RunsElsewhere(ctx, id.UUID)
	if err != nil || !may {
		return err
	}
	return compute.Errorf(compute.Conflict, "Instance %s may still run on a host that does not answer. Try again when that is back.", id)
}
