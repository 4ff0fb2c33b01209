package workflows_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	opact "strongroom/activities/operation"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

func (b *bench) deletion() durable.OperationInput {
	return b.accept(compute.OpDelete, compute.TaskDeleting, nil)
}

// gone checks that nothing is left of the server but its row.
func (b *bench) gone(in durable.OperationInput) {
	t := b.t
	t.Helper()
	b.reapAll()
	require.Empty(t, b.broken)
	require.Empty(t, b.things())
	require.Empty(t, b.ledger)
	require.Empty(t, b.claims)
	require.True(t, b.row.deleted)
	require.Empty(t, b.row.current)
	require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
	for event, result := range b.events {
		require.NotEmpty(t, result, "event %s is still open", event)
	}
}

// TestDeleteGoesInOrder: the running operation first, then the domain, then
// what it used, and the keys last (EE-27, TPM-31).
func TestDeleteGoesInOrder(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
	var order []string
	for _, c := range b.names() {
		if !c.local {
			order = append(order, c.name)
		}
	}
	require.Equal(t, []string{
		opact.CancelRunning.Name, removal(compute.ThingDomain), removal(compute.ThingDiskFile), removal(compute.ThingDiskFile), removal(compute.ThingDiskFile), removal(compute.ThingDiskFile), removal(compute.ThingDiskFile), removal(compute.ThingTPMState),
		removal(compute.ThingKeySecret), removal(compute.ThingKeySecret), removal(compute.ThingKeySecret), removal(compute.ThingKeySecret),
	}, order)
}

// TestDeleteReachesItsEnd troubles each call in turn: a delete is never undone
// and never given up.
func TestDeleteReachesItsEnd(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	require.NoError(t, b.run(compute.OpDelete, b.deletion(), nil))
	for trouble, make := range map[string]func(*testsuite.TestWorkflowEnvironment) fault{
		"fails having done nothing":  func(*testsuite.TestWorkflowEnvironment) fault { return fault{before: fail} },
		"fails having done its work": func(*testsuite.TestWorkflowEnvironment) fault { return fault{after: fail} },
		"is cancelled": func(env *testsuite.TestWorkflowEnvironment) fault {
			return fault{before: func() error { env.CancelWorkflow(); return nil }}
		},
	} {
		for _, c := range b.names() {
			if c.name == record.Begin.Name && strings.HasPrefix(trouble, "fails") {
				continue // see TestADeleteThatCannotBegin
			}
			t.Run(c.String()+" "+trouble, func(t *testing.T) {
				t.Parallel()
				b := spawned(t)
				in := b.deletion()
				require.NoError(t, b.run(compute.OpDelete, in, func(env *testsuite.TestWorkflowEnvironment) { b.fault = at(c, make(env)) }))
				b.gone(in)
			})
		}
	}
}

func TestADeleteThatCannotBegin(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.deletion()
	b.fault = func(c call) fault {
		if c.name == record.Begin.Name {
			return fault{before: fail}
		}
		return fault{}
	}
	require.Error(t, b.run(compute.OpDelete, in, nil))
	require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State, "settled, so that it can be asked for again")
	require.Equal(t, compute.VMError, b.row.server.VMState)
	require.Empty(t, b.row.current)
	b.forget()
	in = b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
}

// TestDeleteLeavesToTheJanitorWhatItCannotRemove: a key manager that is broken for a day
// holds up no delete.
func TestDeleteLeavesToTheJanitorWhatItCannotRemove(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.deletion()
	b.fault = func(c call) fault {
		if c.name == removal(compute.ThingKeySecret) {
			return fault{before: fail}
		}
		return fault{}
	}
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	require.True(t, b.row.deleted)
	require.Len(t, b.secrets, 4)
	require.Len(t, b.things(), 4)
	for range 5 {
		b.reaps(0, 4)
	}
	for _, f := range b.audit() {
		require.Equal(t, compute.Failing, f.What)
		require.Equal(t, errBroken.Message, f.Why)
	}
	b.fault = nil
	b.reaps(4, 0)
	b.gone(in)
}

// TestDeleteRemovesWhatItCan: one disk that does not go holds up the keys, and
// nothing else (EE-27).
func TestDeleteRemovesWhatItCan(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.deletion()
	b.fault = func(c call) fault {
		if c.name != removal(compute.ThingDiskFile) || !strings.Contains(c.detail, "disk.swap") {
			return fault{}
		}
		return fault{before: fail}
	}
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	require.True(t, b.row.deleted)
	require.Len(t, b.files, 1)
	require.Len(t, b.secrets, 4)
	require.Zero(t, b.count(removal(compute.ThingKeySecret)), "not even tried")
	b.reaps(0, 5)
	b.fault = nil
	b.reaps(1, 4)
	b.reaps(4, 0)
	b.gone(in)
}

func TestADeleteThatLosesTheServer(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	require.NoError(t, b.run(compute.OpDelete, b.deletion(), nil))
	for _, c := range b.names() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			in := b.deletion()
			var next durable.OperationInput
			b.fault = at(c, fault{before: func() error { next = b.deletion(); return nil }})
			err := b.run(compute.OpDelete, in, nil)
			if err != nil {
				require.True(t, record.IsSuperseded(err), "%v", err)
			}
			require.Equal(t, compute.OperationCancelled, b.operations[in.Operation].State)
			require.False(t, b.row.deleted)
			b.forget()
			require.NoError(t, b.run(compute.OpDelete, next, nil))
			b.gone(next)
		})
	}
}

// TestDeleteClearsWhatATerminatedSpawnLeft cuts a spawn off after each call and
// lets nobody undo it.
func TestDeleteClearsWhatATerminatedSpawnLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	calls := b.names()
	for _, c := range calls {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true)
			never := make(chan struct{})
			t.Cleanup(func() { close(never) })
			b.fault = func(now call) fault {
				if b.reached(c) && now.String() != c.String() {
					return fault{before: func() error { <-never; return errBroken }} // nothing takes effect any more
				}
				return fault{}
			}
			spawn := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
			func() {
				defer func() { _ = recover() }() // the environment gives up on a workflow that stands still
				_ = b.run(compute.OpCreate, spawn, func(env *testsuite.TestWorkflowEnvironment) { env.SetTestTimeout(time.Second / 4) })
			}()
			b.forget()
			in := b.deletion()
			require.NoError(t, b.run(compute.OpDelete, in, nil))
			b.gone(in)
		})
	}
}

// reached reports whether the call was made.
func (b *bench) reached(c call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.calls, func(made call) bool { return made.String() == c.String() })
}

// TestALongDeleteStartsAfresh: a history that grew long is left behind.
func TestALongDeleteStartsAfresh(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.deletion()
	b.fault = at(call{name: opact.CancelRunning.Name, nth: 1}, fault{before: fail})
	err := b.run(compute.OpDelete, in, func(env *testsuite.TestWorkflowEnvironment) { env.SetContinueAsNewSuggested(true) })
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, err, &again)
	require.Equal(t, durable.WorkflowType(compute.OpDelete), again.WorkflowType.Name)
	require.Equal(t, compute.OperationRunning, b.operations[in.Operation].State)
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
}

// TestAnAdministratorDeletes: the secrets are asked for in their owner's project.
func TestAnAdministratorDeletes(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.deletion()
	b.operations[in.Operation].Credential.ProjectID = "99999999999999999999999999999999"
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
	require.True(t, slices.ContainsFunc(b.calls, func(c call) bool { return c.name == removal(compute.ThingKeySecret) }))
}
