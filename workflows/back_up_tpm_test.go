package workflows_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// tpmBackedUp is a bench with a server whose vTPM's state is backed up.
func tpmBackedUp(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		require.NoError(t, b.backUpTPM())
		b.forget()
		return b
	}
}

// goneOn is a bench with a server whose guest changed the state of its vTPM.
func goneOn(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		b.tpmChanges()
		return b
	}
}

// tpmLost is a bench with a server whose host has lost the state of its vTPM.
func tpmLost(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		b.states[b.tpmKey(b.row.server.Host.String(), b.row.server.ID.String())] = ""
		return b
	}
}

func (b *bench) backUpTPM() error {
	b.t.Helper()
	return b.run(compute.OpBackUpTPM, b.accept(compute.OpBackUpTPM, compute.TaskBackingUpTPM, nil), nil)
}

func (b *bench) tpmState() string {
	return b.state()
}

func (b *bench) tpmChanges() {
	b.states[b.tpmKey(b.row.server.Host.String(), b.row.server.ID.String())] += " and more"
}

// backups are the objects that are backups.
func (b *bench) backups() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.stored)), func(name string) bool { return !strings.HasPrefix(name, "tpm-backup/") })
}

// keepsBackup requires that there is the backup that the record names, and no other.
func (b *bench) keepsBackup() {
	b.t.Helper()
	is := b.row.server.TPMBackup
	if is == nil || b.row.deleted {
		require.Empty(b.t, b.backups())
		return
	}
	for _, name := range b.backups() {
		require.Equal(b.t, is.Object, name)
		require.Equal(b.t, is.SHA256, sumOf(b.stored[name]))
	}
}

// TPM-30: a backup of a vTPM's state that has changed is the next generation, and the one before
// goes; one of a state that has not is not made again, unless somebody deleted it.
func TestBackUpTPM(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	made := func(generation int64, final bool) {
		t.Helper()
		require.NoError(t, b.backUpTPM())
		is := b.row.server.Backup()
		require.NotNil(t, is)
		require.Equal(t, []any{generation, final}, []any{is.Generation, is.Final})
		require.Equal(t, []string{is.Object}, b.backups())
		require.Equal(t, b.tpmState(), b.stored[is.Object])
		require.Empty(t, b.audit())
		require.Empty(t, b.broken)
	}
	made(1, false)
	first := *b.row.server.TPMBackup
	made(1, false)
	require.Equal(t, first.StoredTPM, b.row.server.TPMBackup.StoredTPM)
	require.True(t, b.row.server.TPMBackup.At.After(first.At), "it was so later, too")
	require.Equal(t, 1, b.count(tpm.BackUp.Name))
	b.tpmChanges()
	made(2, false)
	require.NotEqual(t, first.Object, b.row.server.TPMBackup.Object)
	clear(b.stored)
	made(3, false)
	b.stored[b.row.server.TPMBackup.Object] = "another one"
	made(4, false)
	require.NoError(t, b.run(compute.OpStop, b.accept(compute.OpStop, compute.TaskPoweringOff, nil), nil))
	made(4, true)
	require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
	require.False(t, b.row.server.TPMBackup.Final, "the guest may change it")
	in := b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
	require.Empty(t, b.stored)
}

// TPM-30: an evacuated server has its vTPM as its newest backup has it, also where it stays off,
// and its user is told of what time that is. The backup stays for another time.
func TestEvacuateRestoresTheVTPM(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"runs": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fenced(goneOn(tpmBackedUp(spawned)))(t)
			from, to, was, backup := b.hosts[0], b.hosts[1], b.row.server, *b.row.server.TPMBackup
			b.down[from], b.forced[from] = true, true
			in := b.accept(compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{Stopped: stays})
			require.NoError(t, b.run(compute.OpEvacuate, in, nil))
			is := b.row.server
			require.Equal(t, []any{to, stays, false}, []any{*is.Host, is.Unbooted(), is.HasNewTPM()})
			require.Empty(t, strings.TrimPrefix(b.tpmState(), b.stored[backup.Object]))
			told := "has the state of its backup 1, of " + backup.At.Format("2006-01-02T15:04:05Z")
			require.Contains(t, b.operations[in.Operation].Message, told)
			require.Contains(t, b.events[eventKey(in, "tpm_state_restored", nil)], told)
			require.NotContains(t, b.events, eventKey(in, "tpm_state_lost", nil))
			require.Equal(t, &backup, is.TPMBackup)
			if stays {
				require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
				require.Equal(t, b.stored[backup.Object], b.tpmState())
			}
			require.Equal(t, compute.PowerRunning, b.domains[to.String()+" "+was.InstanceName()])
			b.down[from], b.forced[from] = false, false
			b.reapAll()
			require.Empty(t, b.audit())
			require.Empty(t, b.broken)
			b.isWhatItIs()
			b.keepsBackup()
		})
	}
}

// A backup that is gone, or of another vTPM, does not come back: the state is lost, as without
// one, and no backup of it is left that a later evacuate could take.
func TestEvacuateWithABackupThatIsNone(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*bench){
		"gone":    func(b *bench) { clear(b.stored) },
		"another": func(b *bench) { b.stored[b.row.server.TPMBackup.Object] = "another" },
		"of another vTPM": func(b *bench) {
			of := *b.row.server.TPMBackup
			of.Of.Version = compute.TPM12
			b.row.server.TPMBackup = &of
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fenced(tpmBackedUp(spawned))(t)
			spoil(b)
			was := b.tpmState()
			in := b.accept(compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{})
			require.NoError(t, b.run(compute.OpEvacuate, in, nil))
			require.Contains(t, b.operations[in.Operation].Message, "was lost with its host")
			require.Contains(t, b.events[eventKey(in, "tpm_state_lost", nil)], "was lost with its host")
			require.NotEqual(t, was, b.tpmState())
			require.Nil(t, b.row.server.TPMBackup)
			b.reapAll()
			require.Empty(t, b.backups())
			require.Empty(t, b.audit())
			b.isWhatItIs()
		})
	}
}

// One whose backup may not be read is not evacuated, and nothing is made.
func TestEvacuateWithABackupThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	b := fenced(tpmBackedUp(spawned))(t)
	was, has := b.row.server, b.listed()
	b.fault = at(call{name: "object.Verify", nth: 1}, fault{before: func() error { return compute.Errorf(compute.Forbidden, "not yours") }})
	require.Equal(t, compute.Forbidden, durable.FromTemporal(b.evacuateIt(compute.EvacuateArguments{})).Kind)
	require.Equal(t, was, b.row.server)
	require.Equal(t, has, b.listed())
	require.Len(t, b.claims, 1)
}

// A stop backs up the state of the vTPM. A backup that fails keeps no server on: nothing of it is
// left, and the user is told. Whoever cancels the stop, or takes the server over, cancels both.
func TestStopBacksUpTheVTPM(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) *bench {
		b := goneOn(tpmBackedUp(spawned))(t)
		b.backsUp = true
		return b
	}
	stop := func(b *bench, arm func(*testsuite.TestWorkflowEnvironment)) (durable.OperationInput, error) {
		in := b.accept(compute.OpStop, compute.TaskPoweringOff, nil)
		return in, b.run(compute.OpStop, in, arm)
	}
	sound := func(t *testing.T, b *bench) {
		t.Helper()
		b.reapAll()
		b.keepsBackup()
		require.Len(t, b.backups(), 1)
		require.Empty(t, b.audit())
		require.Empty(t, b.broken)
		for event, result := range b.events {
			require.NotEmpty(t, result, "event %s is still open", event)
		}
	}
	b := setup(t)
	in, err := stop(b, nil)
	require.NoError(t, err)
	b.whole(in, compute.OpStop)
	require.Equal(t, []any{int64(2), true}, []any{b.row.server.TPMBackup.Generation, b.row.server.TPMBackup.Final})
	require.Equal(t, b.tpmState(), b.stored[b.row.server.TPMBackup.Object])
	require.Empty(t, b.operations[in.Operation].Message)
	sound(t, b)
	calls := b.names()
	first := slices.IndexFunc(calls, func(c call) bool { return c.name == tpm.Digest.Name })
	last := slices.IndexFunc(calls, func(c call) bool { return c.name == record.TPMBackup.Name })
	require.Positive(t, first)
	for _, c := range calls[first:last] {
		if c.local {
			continue
		}
		for moment, f := range map[string]fault{"before": {before: fail}, "after": {after: fail}} {
			t.Run(c.String()+" fails "+moment, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				was := *b.row.server.TPMBackup
				b.fault = at(c, f)
				in, err := stop(b, nil)
				require.NoError(t, err)
				require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
				require.Contains(t, b.operations[in.Operation].Message, "was not backed up: "+errBroken.Message)
				require.Equal(t, compute.VMStopped, b.row.server.VMState)
				require.Equal(t, &was, b.row.server.TPMBackup)
				sound(t, b)
			})
		}
		t.Run(c.String()+" is cancelled", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			in, err := stop(b, func(env *testsuite.TestWorkflowEnvironment) {
				b.fault = at(c, fault{after: func() error { env.CancelWorkflow(); return nil }})
			})
			require.True(t, temporal.IsCanceledError(err), "%v", err)
			require.Equal(t, compute.OperationCancelled, b.operations[in.Operation].State)
			sound(t, b)
		})
		t.Run(c.String()+" loses the server", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fault = at(c, fault{before: func() error { b.accept(compute.OpDelete, compute.TaskDeleting, nil); return nil }})
			_, err := stop(b, nil)
			require.True(t, record.IsSuperseded(err), "%v", err)
			sound(t, b)
		})
	}
}
