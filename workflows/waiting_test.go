package workflows_test

import (
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/workflows"
)

// delegated is a bench with a server whose owner's flavor delegates its keys.
func delegated(t *testing.T) *bench {
	b := newBench(t, true)
	b.row.server.TPM.Security = compute.SecurityHost
	b.row.server.Flavor.ExtraSpecs = map[string]string{"hw:ephemeral_encryption_secret_security": "host"}
	return b
}

// reap has the janitor do its work once and gives how many things it removed, and how
// many are left waiting.
func (b *bench) reap() (removed, waiting int) {
	b.t.Helper()
	return b.reapBeside(nil)
}

// reapBeside is reap. arm, if any, gets the environment first.
func (b *bench) reapBeside(arm func(*testsuite.TestWorkflowEnvironment)) (removed, waiting int) {
	b.t.Helper()
	b.ids = map[string]int{} // the environment counts from 1 again
	before := len(b.ledger)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := newEnvironment(&suite)
	env.SetWorkerOptions(workerOptions())
	workflows.Register(env)
	b.register(env)
	if arm != nil {
		arm(env)
	}
	env.ExecuteWorkflow(workflows.JanitorName)
	require.True(b.t, workflow.IsContinueAsNewError(env.GetWorkflowError()), "it goes on: %v", env.GetWorkflowError())
	for _, t := range b.ledger {
		if t.State == compute.ThingWaiting {
			waiting++
		}
	}
	return before - len(b.ledger), waiting
}

// reapAll has the janitor work until nothing is due any more: what waits for somebody to
// help stays.
func (b *bench) reapAll() {
	b.t.Helper()
	for range 30 {
		if len(b.due()) == 0 {
			return
		}
		if removed, _ := b.reap(); removed == 0 && b.fault == nil {
			return
		}
	}
}

// reaps requires what the janitor gets done.
func (b *bench) reaps(removed, waiting int) {
	b.t.Helper()
	gone, left := b.reap()
	require.Equal(b.t, removed, gone, "removed")
	require.Equal(b.t, waiting, left, "left waiting")
}

// waits checks that what is left waits for a credential, and nothing else is left.
func (b *bench) waits(things int) {
	b.t.Helper()
	require.Empty(b.t, b.broken)
	found := b.audit()
	require.Len(b.t, found, things)
	for _, f := range found {
		require.Contains(b.t, []compute.Verdict{compute.Waiting, compute.Behind}, f.What, "%+v", f)
		require.NotEmpty(b.t, f.Why)
	}
	require.Len(b.t, b.ledger, things)
}

func everybody(compute.Credential) bool { return true }

// A token that was revoked in the middle of a create: it ends in ERROR, and its
// keys wait until somebody of the project comes by.
func TestKeysWaitForACredential(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	b.fault = at(call{name: disk.Create.Name, nth: 2}, fault{before: func() error {
		b.refuses = everybody
		return compute.Errorf(compute.Forbidden, "the token was revoked")
	}})
	require.Error(t, b.run(compute.OpCreate, in, nil))
	require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
	require.Equal(t, compute.VMError, b.row.server.VMState)
	require.Contains(t, b.row.fault.Message, "revoked")
	require.Len(t, b.secrets, 4)
	require.Len(t, b.things(), 4, "all but the keys is gone")
	b.waits(4)

	b.reaps(0, 4)
	b.waits(4)
	stranger := compute.Credential{ID: uuid.New(), ProjectID: "another", UserID: "u9"}
	member := compute.Credential{ID: uuid.New(), ProjectID: project, UserID: "u2"}
	b.refuses = func(c compute.Credential) bool { return c.ID != member.ID }
	b.offers = []compute.Credential{stranger}
	b.reaps(0, 4)
	b.offers = []compute.Credential{stranger, member}
	b.reaps(4, 0)
	require.Empty(t, b.things())
	require.Empty(t, b.ledger)
	require.Empty(t, b.offers, "used up")
}

// A server whose keys nobody may remove is deleted all the same.
func TestDeleteLeavesKeysWaiting(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	b.refuses = everybody
	require.NoError(t, b.run(compute.OpDelete, b.deletion(), nil))
	require.True(t, b.row.deleted)
	require.Empty(t, b.claims)
	b.waits(4)
	b.refuses = func(c compute.Credential) bool { return !c.IsMember() }
	b.reaps(4, 0)
	require.Empty(t, b.things())
	b.reaps(0, 0)
}

// The owner's trust is kept for as long as it may remove his server's keys, and
// goes after them.
func TestATrustOutlivesTheKeys(t *testing.T) {
	t.Parallel()
	b := delegated(t)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	require.Len(t, b.trusts, 1)
	require.NotEmpty(t, b.delegated)
	require.Empty(t, b.audit())

	b.refuses = everybody
	require.NoError(t, b.run(compute.OpDelete, b.deletion(), nil))
	b.waits(5)
	require.Len(t, b.trusts, 1)
	require.Zero(t, b.count(removal(compute.ThingTrust)), "not even tried")
	trusted := b.row.server.Delegated()
	b.refuses = func(c compute.Credential) bool { return c.ID != trusted.ID }
	b.reaps(4, 1)
	b.reaps(1, 0)
	require.Empty(t, b.things())
	require.Empty(t, b.delegated)
}

// Keys of the mode host are the trust's business, in the create as in the delete.
func TestDelegatedKeys(t *testing.T) {
	t.Parallel()
	b := delegated(t)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, nil))
	trusted := b.row.server.Delegated()
	for _, entry := range b.ledger {
		if entry.Kind == compute.ThingKeySecret {
			require.Equal(t, trusted, entry.Credential)
		}
	}
	b.refuses = func(c compute.Credential) bool { return c.ID != trusted.ID }
	deletion := b.deletion()
	b.operations[deletion.Operation].Credential.ProjectID = "an administrator's"
	require.NoError(t, b.run(compute.OpDelete, deletion, nil))
	b.gone(deletion)
}
