package main

import (
	"time"

	"strongroom/activities/ledger"
	"strongroom/activities/operation"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// apply mends what can be mended. What somebody changed meanwhile is left, and says so.
func (p repair) apply(result *repairResult) error {
	for i := range result.Damage {
		d := &result.Damage[i]
		if d.Remedy == "" {
			continue
		}
		err := p.mend(*d, result)
		if compute.Is(err, compute.Conflict) {
			d.Remedy, d.Why = "", err.Error()
			continue
		}
		if err != nil {
			return err
		}
		d.Applied = true
	}
	return nil
}

// mend mends one damage. Each is one transaction, or a call that may be made again.
func (p repair) mend(d compute.Damage, found *repairResult) error {
	switch d.Remedy {
	case compute.TerminateExecution:
		return p.terminate(d, found.executions)
	case compute.SettleOperation:
		return p.settle(d)
	case compute.NameKey:
		return ledger.RepairKey(p, p.pool, *d.Key, found.since)
	case compute.DeleteServer:
		return p.delete(d, found.since)
	case compute.ReleaseRow, compute.RestoreRow, compute.UndoRotation, compute.RemoveUnknown:
	}
	return ledger.Repair(p, p.pool, d, found.since)
}

func (p repair) terminate(d compute.Damage, executions []durable.Execution) error {
	for _, e := range executions {
		if d.Name == executionName(e) {
			return e.Terminate(p, p.temporal, "its operation is not in the database, which was restored")
		}
	}
	return nil
}

// settle settles operations whose executions are gone, as the janitor does.
func (p repair) settle(d compute.Damage) error {
	lost := operation.Activities{Pool: p.pool, Record: &record.Activities{Pool: p.pool}, Logger: p.log}
	row, err := schema.New(p.pool).GetOperation(p, operationOf(d))
	if err != nil || row.State.Settled() {
		return err
	}
	op := row.Operation()
	if why, err := p.whyLost(op); err != nil || why == "" {
		return err
	}
	return lost.SettleLost(p, op)
}

// delete asks for the delete of a server of which nothing is left. Its operation is like
// any other's: the janitor starts it, if nobody else does.
func (p repair) delete(d compute.Damage, since time.Time) error {
	var op compute.Operation
	err := fence.Transaction(p, p.pool, func(q *schema.Queries) error {
		if err := ledger.LockGone(p, q, d, since); err != nil {
			return err
		}
		s, err := q.GetServer(p, d.Server)
		if err != nil {
			return err
		}
		op = compute.Operation{
			ID: compute.NewOperationID(), ServerID: d.Server, Kind: compute.OpDelete, State: compute.OperationAccepted,
			Credential: compute.MemberCredential(s.ProjectID), Arguments: []byte(`{}`),
		}
		rows, err := q.DeleteServer(p, schema.TakeServerToDeleteParams{ID: d.Server, OperationID: op.ID, ThroughLock: true})
		if err != nil {
			return err
		}
		if rows == 0 {
			return compute.Errorf(compute.Conflict, "server %s is being deleted", d.Server)
		}
		return outbox.Accept(p, q, op, nil)
	})
	if err != nil {
		return err
	}
	launcher := outbox.Launcher{Starter: durable.Starter{Client: p.temporal}, Logger: p.log}
	launcher.Launch(p, []compute.Operation{op})
	launcher.Wait(p)
	return nil
}
