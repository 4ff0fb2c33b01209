package workflows_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/disk"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

func (b *bench) rotation(disks ...string) durable.OperationInput {
	b.t.Helper()
	return b.accept(compute.OpRotateKeys, compute.TaskRotatingKeys, compute.RotateArguments{Disks: disks})
}

// diskSecrets are the secrets on record, by role.
func (b *bench) diskSecrets() map[compute.DiskRole]compute.SecretID {
	out := map[compute.DiskRole]compute.SecretID{}
	for _, d := range b.row.server.Disks {
		out[d.Role] = *d.Secret
	}
	return out
}

// Every disk that is named gets a key of its own, the others keep theirs, and the
// old ones are gone: one secret for each disk and the vTPM. The server starts with
// them, and can be rotated again.
func TestRotate(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		setup   func(*testing.T) *bench
		disks   []string
		rotated []compute.DiskRole
	}{
		"all of a running server": {spawned, nil, []compute.DiskRole{compute.RootDisk, compute.EphemeralDisk, compute.SwapDisk}},
		"one of a running server": {spawned, []string{"swap"}, []compute.DiskRole{compute.SwapDisk}},
		"all of a stopped server": {stopped, nil, []compute.DiskRole{compute.RootDisk, compute.EphemeralDisk, compute.SwapDisk}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := v.setup(t)
			for range 2 {
				was, tpm := b.diskSecrets(), *b.row.server.TPM.Secret
				in := b.rotation(v.disks...)
				require.NoError(t, b.run(compute.OpRotateKeys, in, nil))
				b.whole(in, compute.OpRotateKeys)
				is := b.diskSecrets()
				for role := range was {
					require.Equal(t, slices.Contains(v.rotated, role), was[role] != is[role], role)
				}
				require.Equal(t, tpm, *b.row.server.TPM.Secret)
				require.ElementsMatch(t, append(slices.Collect(maps.Values(is)), tpm), slices.Collect(maps.Values(b.secrets)))
				require.Len(t, b.row.server.Disks[0].EncryptionOptions, 1)
			}
			for _, step := range []struct {
				kind compute.OperationKind
				task compute.TaskState
			}{{compute.OpStop, compute.TaskPoweringOff}, {compute.OpStart, compute.TaskPoweringOn}} {
				if step.kind == compute.OpStop && b.row.server.VMState == compute.VMStopped {
					continue
				}
				require.NoError(t, b.run(step.kind, b.accept(step.kind, step.task, nil), nil))
			}
			in := b.deletion()
			require.NoError(t, b.run(compute.OpDelete, in, nil))
			b.gone(in)
		})
	}
}

// An old secret that nobody's credential may delete waits for one that may; the
// disk is shut to it all the same.
func TestAnOldSecretWaitsForACredential(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.rotation("root")
	b.fault = func(c call) fault {
		if c.name == removal(compute.ThingKeySecret) {
			return fault{before: func() error { return compute.Errorf(compute.Forbidden, "you may not") }}
		}
		return fault{}
	}
	require.NoError(t, b.run(compute.OpRotateKeys, in, nil))
	require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
	b.openWithTheirSecrets()
	waiting := slices.DeleteFunc(slices.Collect(maps.Values(b.ledger)), func(t compute.Thing) bool { return t.State != compute.ThingWaiting })
	require.Len(t, waiting, 1)
	require.Equal(t, compute.ThingKeySecret, waiting[0].Kind)
	require.Equal(t, "you may not", waiting[0].Reason)
	b.forget()
	b.reap()
	require.Empty(t, b.audit())
	require.Len(t, b.secrets, 4)
}

// A key that strongroom did not make for the server stays where it is.
func TestAForeignSecretIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := stopped(t)
	own := compute.SecretID{UUID: uuid.New()}
	b.secrets["somebody's"], b.owned["somebody's"] = own, true
	root := &b.row.server.Disks[0]
	made := *root.Secret
	b.replaced(made, own)
	maps.DeleteFunc(b.secrets, func(_ string, id compute.SecretID) bool { return id == made })
	maps.DeleteFunc(b.ledger, func(_ compute.Sighting, t compute.Thing) bool { return t.Reference == made.String() })
	root.Secret = &own
	in := b.rotation("root")
	require.NoError(t, b.run(compute.OpRotateKeys, in, nil))
	b.whole(in, compute.OpRotateKeys)
	require.Contains(t, b.secrets, "somebody's")
	require.NotEqual(t, own, b.diskSecrets()[compute.RootDisk])
	require.Zero(t, b.count(removal(compute.ThingKeySecret)))
}

// Who is of another project has no business with keys that are their owner's.
func TestRotationByAnotherProject(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	was := b.diskSecrets()
	in := b.rotation()
	b.operations[in.Operation].Credential.ProjectID = "22222222222222222222222222222222"
	err := b.run(compute.OpRotateKeys, in, nil)
	require.ErrorContains(t, err, "belong to its owner")
	b.early(in, subjects["rotation of a running server"], compute.OperationFailed, compute.VMActive, compute.PowerRunning)
	require.Equal(t, was, b.diskSecrets())
	require.Zero(t, b.count(key.Create.Name))
}

// The config drive gets the root disk's new passphrase, where there is one and the
// root disk is among the disks; a credential that died leaves it to the next boot.
func TestRotationRenewsTheConfigDrive(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		disks   []string
		drive   bool
		refuses compute.Kind
		made    int
	}{
		"with the root disk": {nil, true, "", 1},
		"without":            {[]string{"swap"}, true, "", 0},
		"no drive":           {nil, false, "", 0},
		"refused":            {nil, true, compute.Forbidden, 1},
		"no room for it":     {nil, true, compute.NoHost, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := stopped(t)
			b.row.server.ConfigDrive = v.drive
			if v.refuses != "" {
				b.fault = func(c call) fault {
					if c.name != disk.CreateConfigDrive.Name {
						return fault{}
					}
					return fault{before: func() error { return compute.Errorf(v.refuses, "you may not") }}
				}
			}
			in := b.rotation(v.disks...)
			require.NoError(t, b.run(compute.OpRotateKeys, in, nil))
			b.whole(in, compute.OpRotateKeys)
			require.Equal(t, v.made, b.count(disk.CreateConfigDrive.Name))
			for _, c := range b.names() {
				if c.name == disk.CreateConfigDrive.Name {
					require.Contains(t, c.detail, b.diskSecrets()[compute.RootDisk].String())
				}
			}
			if v.refuses != "" {
				require.Equal(t, "done: you may not", b.events[eventKey(in, "create_config_drive", b.host(0))])
			}
		})
	}
}

// A disk whose header went bad in the middle of a rotation holds neither its end nor a
// delete up, and keeps all keys that may open it.
func TestADiskThatLosesItsHeader(t *testing.T) {
	t.Parallel()
	b := stopped(t)
	before := maps.Clone(b.secrets)
	b.fault = func(c call) fault {
		if c.name != removal(compute.ThingKeySlot) {
			return fault{}
		}
		return fault{before: func() error { return compute.Errorf(compute.Corrupt, "no LUKS header") }}
	}
	in := b.rotation()
	require.NoError(t, b.run(compute.OpRotateKeys, in, nil))
	require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
	require.Equal(t, "done: no LUKS header", b.events[eventKey(in, "erase_key_slots", b.host(0))])
	for name := range before {
		require.Contains(t, b.secrets, name)
	}
	for _, f := range b.audit() {
		require.Contains(t, []compute.Verdict{compute.Failing, compute.Behind}, f.What)
	}
	b.fault = nil
	deletion := b.deletion()
	require.NoError(t, b.run(compute.OpDelete, deletion, nil))
	b.gone(deletion)
}

// A delegated key is rotated with what its owner delegated, whoever asks.
func TestRotationOfDelegatedKeys(t *testing.T) {
	t.Parallel()
	b := delegated(t)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.forget()
	in := b.rotation()
	b.operations[in.Operation].Credential.ProjectID = "22222222222222222222222222222222"
	require.NoError(t, b.run(compute.OpRotateKeys, in, nil))
	b.whole(in, compute.OpRotateKeys)
	delegate := b.row.server.Delegated().ID.String()
	for _, c := range b.names() {
		if c.name == key.Create.Name || c.name == disk.AddKey.Name {
			require.Contains(t, c.detail, delegate)
		}
	}
}

// A cancel that comes while the record is asked, whose yes got lost, is too late:
// an undo would shut the disks to the keys on record.
func TestADecisionThatGotLost(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.rotation()
	require.NoError(t, b.run(compute.OpRotateKeys, in, func(env *testsuite.TestWorkflowEnvironment) {
		b.fault = at(call{name: record.Rotate.Name, nth: 1}, fault{after: func() error {
			env.CancelWorkflow()
			return errBroken
		}})
	}))
	b.whole(in, compute.OpRotateKeys)
}

// A delete that comes when it is decided finds a server with its new keys.
func TestADeleteAfterTheDecision(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.rotation()
	err := b.run(compute.OpRotateKeys, in, func(env *testsuite.TestWorkflowEnvironment) {
		b.fault = at(call{name: removal(compute.ThingKeySlot), nth: 1}, fault{before: func() error {
			b.deletion()
			env.CancelWorkflow()
			return nil
		}})
	})
	require.True(t, record.IsSuperseded(err) || temporal.IsCanceledError(err), "%v", err)
	require.Empty(t, b.broken)
	b.openWithTheirSecrets()
	require.Len(t, b.secrets, 4, "the old ones are gone")
	for _, op := range b.operations {
		if op.Kind == compute.OpDelete {
			again := durable.OperationInput{Operation: op.ID, Server: in.Server}
			require.NoError(t, b.run(compute.OpDelete, again, nil))
			b.gone(again)
		}
	}
}
