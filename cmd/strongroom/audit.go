package main

import (
	"context"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"strongroom/durable"
	"strongroom/worker/pki"
	"strongroom/workflows"
)

type auditCommand struct {
	output
	Project string `placeholder:"PROJECT" help:"Only what is this project's, by its id: the ledger's rows of it, its part of each service, and on hosts what bears the id of one of its servers."`
}

// Help is shown by --help.
func (auditCommand) Help() string {
	return `Everything that strongroom makes outside its database has a row in the ledger
before it is made. The audit asks every host, the key manager, the image store, the
object store and the identity service what is really there and compares in both
directions:

  unowned    it exists and the ledger does not know it
  leftover   its owner is deleted and it is still on the ledger
  missing    the ledger says it is there and it is not
  unsure     it was meant to be made and nobody is at work on it
  waiting for a credential
             it is to go, and everybody who could remove it was refused: it goes
             with the next request of a creator of its project (docs/secrets.md)
  waiting for its host
             it is to go, and its host does not answer: it goes when the host is back,
             or with "strongroom host forget HOST" if it never will be
  waiting for what may still happen
             the service that was to make it gave no answer: it is looked for once more
  waiting for what must go first
             a key waits for the disks that it opens
  waiting to be tried again
             its removal failed, the last column says why
  tried for long
             an operation is in one step for more than 13 hours, as the last column says

With --project, a project that nothing on record names has no findings either: look
that its id is right. What belongs to no project that is known is told by the audit of all.

An audit that is cut off goes on where it was: ask again. At most 500 findings are
told; their number is. Of images it knows those that are being made: a whole one is its owner's. Where
nobody is shown all projects, they are looked into one by one, and where no
credential opens a project, one of the last lines says so. A project that was deleted in
Keystone is left out, unless something of it is on the ledger: "strongroom project
forget PROJECT" ends that.

No findings is the normal answer. Exit code 0: nothing found; 1: something was
found, or a host or service did not answer.`
}

func (a auditCommand) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	temporal, err := dialTemporalAsControl(r, cfg, pki.Control, r.log, durable.Dial)
	if err != nil {
		return err
	}
	defer temporal.Close()
	// Who asks while an audit runs gets its answer.
	result, err := runAudit(r, temporal, a.Project, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING)
	if err != nil {
		return err
	}
	if result.Project != a.Project {
		return fmt.Errorf("the control workers are of a release that knows no audit of a project: update them, or ask without --project")
	}
	if err := a.print(result, auditTable(result)); err != nil {
		return err
	}
	switch {
	case len(result.Findings) > 0:
		return fmt.Errorf("%d findings", len(result.Findings)+result.More)
	case len(result.Silent) > 0:
		return fmt.Errorf("no answer from %s", strings.Join(result.Silent, ", "))
	}
	return nil
}

// runAudit runs an audit of a project, or of all (""), and waits for its end.
func runAudit(ctx context.Context, temporal client.Client, project string, meets enumspb.WorkflowIdConflictPolicy) (result workflows.AuditResult, err error) {
	id := workflows.AuditID(project)
	run, err := temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: durable.ControlQueue, WorkflowIDConflictPolicy: meets,
	}, workflows.AuditName, workflows.AuditInput{Project: project})
	if err != nil {
		return result, fmt.Errorf("the audit could not be started: %w", err)
	}
	if err := run.Get(ctx, &result); err != nil {
		why := durable.FromTemporal(err).Message
		return result, fmt.Errorf("the audit did not reach its end: %s. Ask again; the Temporal UI shows under %q how far it came", why, id)
	}
	return result, nil
}

func auditTable(result workflows.AuditResult) func(*sheet) {
	return func(w *sheet) {
		if len(result.Findings) > 0 {
			w.header("FINDING", "KIND", "PLACE", "NAME", "OWNER", "PROJECT", "WHY")
		}
		for _, f := range result.Findings {
			w.row(f.What, f.Kind, f.Place, f.Name, f.Owner, f.Project, f.Why)
		}
		if result.More > 0 {
			w.note(fmt.Sprintf("… and %d more", result.More))
		}
		w.note(fmt.Sprintf("%d findings, %d things on the ledger, looked at: %s", len(result.Findings)+result.More, result.Things, strings.Join(result.Looked, ", ")))
		for _, closed := range result.Closed {
			w.note("no credential opens " + closed)
		}
		if result.MoreClosed > 0 {
			w.note(fmt.Sprintf("no credential opens %d more", result.MoreClosed))
		}
		for _, gone := range result.Gone {
			w.note(fmt.Sprintf("%s: see strongroom project forget --help", gone))
		}
	}
}
