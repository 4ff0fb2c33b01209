package workflows_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/activities/trust"
	"strongroom/compute"
	"strongroom/durable"
)

// newImage is the image of rebuilds; properties say what it asks for.
func newImage(properties map[string]string) compute.Image {
	return compute.Image{
		ID: compute.ImageID{UUID: uuid.MustParse("5f8dd7c2-6de5-44f4-a4b5-0fd9be14b2ad")}, Name: "new image", Status: "active", DiskFormat: "qcow2",
		Properties: properties,
	}
}

func rebuildTo(properties map[string]string) compute.RebuildRequest {
	return compute.RebuildRequest{RebuildArguments: compute.RebuildArguments{Image: newImage(properties)}}
}

var (
	luks = map[string]string{"hw_ephemeral_encryption": "true"}
	crb  = map[string]string{"hw_ephemeral_encryption": "true", "hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"}
)

// preserving is a rebuild that keeps the ephemeral disk.
var preserving = compute.RebuildRequest{RebuildArguments: compute.RebuildArguments{Image: newImage(crb), PreserveEphemeral: true}}

// withoutTPM is a bench with a running encrypted server that has no vTPM.
func withoutTPM(t *testing.T) *bench {
	b := newBench(t, true)
	b.row.server.TPM = nil
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.forget()
	return b
}

func stoppedWithoutTPM(t *testing.T) *bench {
	b := withoutTPM(t)
	require.NoError(t, b.run(compute.OpStop, b.accept(compute.OpStop, compute.TaskPoweringOff, nil), nil))
	b.forget()
	return b
}

// mayDelegate is a bench with a plain server whose flavor wants its keys delegated
// as soon as it has some.
func mayDelegate(t *testing.T) *bench {
	b := newBench(t, false)
	b.row.server.Flavor.ExtraSpecs = map[string]string{"hw:ephemeral_encryption_secret_security": "host", "hw:tpm_secret_security": "host"}
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.forget()
	return b
}

// imagesKey is the secret of an encrypted image. It is nobody's to remove here.
var imagesKey = compute.SecretID{UUID: uuid.MustParse("9b5ad71c-e4c5-4a6e-8e5e-0a0a3a8d3c11")}

// toEncrypted is a rebuild to an image that is encrypted.
func toEncrypted() compute.RebuildRequest {
	out := rebuildTo(map[string]string{"os_encrypt_key_id": imagesKey.String(), "os_encrypt_format": "LUKSv1"})
	out.Image.SHA256 = strings.Repeat("cd", 32)
	return out
}

func withTheImagesKey(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		b.secrets["the image's"], b.owned["the image's"] = imagesKey, true
		return b
	}
}

// onItself is a bench with a server on the encrypted image that it is rebuilt to.
func onItself(t *testing.T) *bench {
	b := withTheImagesKey(withoutTPM)(t)
	_, err := b.rebuild(toEncrypted())
	require.NoError(t, err)
	b.forget()
	return b
}

func running() func([]call, int, bool) (compute.VMState, compute.PowerState) {
	return always(compute.VMActive, compute.PowerRunning)
}

func shutOff() func([]call, int, bool) (compute.VMState, compute.PowerState) {
	return always(compute.VMStopped, compute.PowerShutdown)
}

// agrees requires that what there is in the world is what the record says of the
// server, and nothing else of it.
func (b *bench) agrees() {
	t, s := b.t, b.row.server
	t.Helper()
	host := s.Host.String() + " "
	files := map[string]bool{host + consoleLog(s.ID): true}
	if s.ConfigDrive {
		files[host+s.ID.String()+"/"+compute.ConfigDriveFile] = true
	}
	if nvram := s.NVRAM(); nvram != "" {
		files[host+s.ID.String()+"/"+nvram] = true
	}
	for _, d := range s.Disks {
		file := host + s.ID.String() + "/" + d.Name()
		files[file] = true
		require.Equal(t, d.Encrypted, d.Secret != nil)
		onCopy := d.Role == compute.RootDisk && s.Image.IsEncrypted()
		require.Equal(t, onCopy, d.BackingSecret != nil)
		if d.Encrypted {
			require.NotEmpty(t, d.EncryptionOptions)
			require.Equal(t, compute.Server{Disks: []compute.Disk{d}}.Secrets(), b.locks[file])
		}
	}
	require.Equal(t, files, b.files)
	require.Len(t, b.uses, map[bool]int{true: 1}[s.Image.IsEncrypted()])
	require.Len(t, b.secrets, len(s.Secrets())+len(b.owned))
	for _, id := range s.Secrets() {
		require.True(t, b.has(&id))
	}
	require.Equal(t, s.TPM != nil, b.tpms[host+s.ID.String()])
	if s.TPM != nil {
		require.Equal(t, []compute.SecretID{*s.TPM.Secret}, b.locks[host+s.ID.String()])
	}
	require.Len(t, b.trusts, map[bool]int{true: 1}[s.Delegates()])
	if b.domains[host+s.InstanceName()] == compute.PowerRunning {
		require.Equal(t, s.Image.ID, b.runs)
		require.ElementsMatch(t, s.Secrets(), b.locks[host+s.InstanceName()])
	}
}

func (b *bench) rebuild(asked compute.RebuildRequest) (durable.OperationInput, error) {
	b.t.Helper()
	in := b.accept(compute.OpRebuild, compute.TaskRebuilding, asked)
	return in, b.run(compute.OpRebuild, in, nil)
}

// TPM-29: none and asked for.
func TestRebuildMakesATPM(t *testing.T) {
	t.Parallel()
	b := withoutTPM(t)
	in, err := b.rebuild(rebuildTo(crb))
	require.NoError(t, err)
	b.whole(in, compute.OpRebuild)
	require.NotNil(t, b.row.server.TPM.Secret)
	require.Equal(t, compute.TPMCRB, b.row.server.TPM.Model)
}

// TPM-29: one and none asked for.
func TestRebuildDropsTheTPM(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	was := *b.row.server.TPM.Secret
	in, err := b.rebuild(rebuildTo(luks))
	require.NoError(t, err)
	b.whole(in, compute.OpRebuild)
	require.Nil(t, b.row.server.TPM)
	require.False(t, b.has(&was))
	require.Empty(t, b.tpms)
}

// TPM-29: one and the same asked for.
func TestRebuildKeepsTheTPM(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	was := *b.row.server.TPM.Secret
	in, err := b.rebuild(rebuildTo(crb))
	require.NoError(t, err)
	b.whole(in, compute.OpRebuild)
	require.Equal(t, was, *b.row.server.TPM.Secret)
	require.Zero(t, b.count(removal(compute.ThingTPMState)), "its state is not touched")
	require.Zero(t, b.count(removal(compute.ThingDomain)))
}

// K20: no start takes a server whose host has lost the state of its vTPM. A rebuild does: the vTPM is as its backup has it, or a new one with the
// same key, and the user is told which. A rebuild that fails leaves it as it was, without a state.
func TestK20RebuildOfAServerWhoseVTPMIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup       func(*testing.T) *bench
		spoil       func(*bench)
		event, told string
		backup      bool
	}{
		"no backup":          {tpmLost(stopped), func(*bench) {}, "tpm_state_lost", "was not on its host any more: it is new and empty, with the same key", false},
		"backed up":          {tpmLost(tpmBackedUp(stopped)), func(*bench) {}, "tpm_state_restored", "has the state of its backup 1", true},
		"the backup is gone": {tpmLost(tpmBackedUp(stopped)), func(b *bench) { clear(b.stored) }, "tpm_state_lost", "was not on its host any more", false},
		"lost while it runs": {tpmLost(spawned), func(*bench) {}, "tpm_state_lost", "was not on its host any more", false},
		"it was certified":   {tpmLost(stopped), func(b *bench) { b.row.server.TPM.Endorsed = "req-had" }, "tpm_state_lost", "was not on its host any more", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := c.setup(t)
			c.spoil(b)
			if b.row.server.VMState == compute.VMStopped {
				err := b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil)
				require.ErrorContains(t, err, "its TPM state is not on this host")
				require.Equal(t, compute.VMStopped, b.row.server.VMState)
				require.Nil(t, b.row.fault)
			}
			key := *b.row.server.TPM.Secret
			in, err := b.rebuild(rebuildTo(crb))
			require.NoError(t, err)
			b.whole(in, compute.OpRebuild)
			require.Contains(t, b.operations[in.Operation].Message, c.told)
			require.Contains(t, b.events[eventKey(in, c.event, nil)], c.told)
			require.Equal(t, key, *b.row.server.TPM.Secret)
			require.Empty(t, b.row.server.TPM.Endorsed)
			require.Equal(t, c.backup, b.row.server.TPMBackup != nil)
			if c.backup {
				require.Equal(t, b.stored[b.row.server.TPMBackup.Object], b.tpmState())
			} else {
				require.Equal(t, "made by "+string(in.Operation), b.tpmState())
				require.Empty(t, b.backups())
			}
			require.Len(t, b.tpms, 1, "no copy is left")
			if b.row.server.VMState == compute.VMStopped {
				require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
			}
		})
	}
}

// K20: another server's state in the place of one that was backed up when the server was stopped is a lost one. Without the backup it may be the server's own,
// and stays.
func TestK20RebuildOfAServerWithAnotherTPMState(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{true, false} {
		b := tpmBackedUp(stopped)(t)
		key := b.tpmKey(b.row.server.Host.String(), b.row.server.ID.String())
		good := b.states[key]
		b.tpmChanges()
		other := b.states[key]
		if !stored {
			clear(b.stored)
		}
		in, err := b.rebuild(rebuildTo(crb))
		require.NoError(t, err)
		if stored {
			require.Equal(t, good, b.states[key])
			require.Contains(t, b.operations[in.Operation].Message, "has the state of its backup 1")
		} else {
			require.Equal(t, other, b.states[key])
			require.Empty(t, b.operations[in.Operation].Message)
		}
		require.Empty(t, b.broken)
	}
}

// K20: a rebuild that fails after the new vTPM was made leaves none: the state may be found again.
func TestK20RebuildThatFailsLeavesNoNewVTPM(t *testing.T) {
	t.Parallel()
	for _, setup := range []func(*testing.T) *bench{tpmLost(stopped), tpmLost(tpmBackedUp(stopped))} {
		b := setup(t)
		has, backup := b.listed(), b.row.server.TPMBackup
		b.fault = at(call{name: domain.Start.Name, nth: 1}, fault{after: fail})
		in, err := b.rebuild(rebuildTo(crb))
		require.Error(t, err)
		b.early(in, subjects["rebuild, vTPM lost"], compute.OperationFailed, compute.VMStopped, compute.PowerShutdown)
		require.Empty(t, b.tpmState())
		require.Equal(t, has, b.listed())
		require.Equal(t, backup, b.row.server.TPMBackup)
		require.ErrorContains(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil), "its TPM state is not on this host")
	}
}

// TPM-30: a rebuild of a server that is off boots it, and its guest may change what was backed up. The next backup is due, and a shelve keeps what there is.
func TestRebuildOfAServerThatIsOffAndBackedUp(t *testing.T) {
	t.Parallel()
	b := tpmBackedUp(stopped)(t)
	require.True(t, b.row.server.TPMBackup.Final)
	_, err := b.rebuild(rebuildTo(crb))
	require.NoError(t, err)
	b.tpmChanges() // while it ran
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	require.False(t, b.row.server.TPMBackup.Final)
	require.NoError(t, b.run(compute.OpShelve, b.accept(compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}), nil))
	require.Empty(t, b.audit())
}

// TPM-29: one and another asked for.
func TestRebuildRefusesAnotherTPM(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]map[string]string{
		"version": {"hw_tpm_version": "1.2"},
		"model":   {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-tis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			in, err := b.rebuild(rebuildTo(asked))
			require.ErrorContains(t, err, "a rebuild keeps the vTPM")
			b.early(in, subjects["rebuild"], compute.OperationFailed, compute.VMActive, compute.PowerRunning)
			require.Equal(t, []string{record.Begin.Name, record.Settle.Name}, []string{b.names()[0].name, b.names()[1].name}, "nothing was done")
		})
	}
}

// All disks are replaced, and a rebuilt server can be rebuilt.
func TestRebuildReplacesAllDisks(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	for range 2 {
		before := b.row.server
		b.forget()
		in, err := b.rebuild(rebuildTo(crb))
		require.NoError(t, err)
		b.whole(in, compute.OpRebuild)
		for i, d := range b.row.server.Disks {
			require.NotEqual(t, before.Disks[i].ID, d.ID)
			require.NotEqual(t, before.Disks[i].Name(), d.Name())
			require.NotEqual(t, before.Disks[i].Secret, d.Secret)
			require.False(t, b.has(before.Disks[i].Secret))
			require.Equal(t, before.Disks[i].DeviceName, d.DeviceName)
		}
		names := []string{}
		for _, c := range b.names() {
			if c.name == domain.Stop.Name || c.name == disk.Create.Name || c.name == domain.Start.Name || c.name == removal(compute.ThingDiskFile) || c.name == removal(compute.ThingKeySecret) || c.name == record.Rebuild.Name {
				names = append(names, c.name)
			}
		}
		require.Equal(t, []string{
			disk.Create.Name, disk.Create.Name, disk.Create.Name, domain.Stop.Name, domain.Start.Name, record.Rebuild.Name,
			removal(compute.ThingDiskFile), removal(compute.ThingDiskFile), removal(compute.ThingDiskFile), removal(compute.ThingKeySecret), removal(compute.ThingKeySecret), removal(compute.ThingKeySecret),
		}, names, "the old ones stay until the new domain runs")
	}
	in := b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
}

func TestRebuildPreservesEphemeralDisks(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	before := b.row.server
	in, err := b.rebuild(preserving)
	require.NoError(t, err)
	b.whole(in, compute.OpRebuild)
	for i, d := range b.row.server.Disks {
		require.Equal(t, d.Role == compute.EphemeralDisk, d.ID == before.Disks[i].ID)
		require.Equal(t, d.Role == compute.EphemeralDisk, *d.Secret == *before.Disks[i].Secret)
	}

	plain := preserving
	plain.Image = newImage(nil)
	in, err = b.rebuild(plain)
	require.ErrorContains(t, err, "they cannot be preserved", "a plain server's disks are all plain")
	b.early(in, subjects["rebuild"], compute.OperationFailed, compute.VMActive, compute.PowerRunning)
}

// EE-30: who may not read the keys changes nothing, and does not even shut the
// server down: he could not start it again.
func TestRebuildByOneWhoMayNotReadTheKeys(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	b.fault = func(c call) fault {
		if c.name == key.Check.Name && c.nth == 3 {
			return fault{before: func() error { return compute.Errorf(compute.Forbidden, "you may not") }}
		}
		return fault{}
	}
	in, err := b.rebuild(rebuildTo(crb))
	require.True(t, compute.Is(durable.FromTemporal(err), compute.Forbidden))
	b.early(in, subjects["rebuild"], compute.OperationFailed, compute.VMActive, compute.PowerRunning)
	require.Zero(t, b.count(domain.Stop.Name))
	require.Zero(t, b.count(key.Create.Name))
}

// EE-34: by the record as it is when the rebuild begins, another than the owner
// changes no encryption.
func TestRebuildToOtherEncryptionByAnother(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	b.row.server.UserID = "the owner"
	in, err := b.rebuild(rebuildTo(nil))
	require.ErrorContains(t, err, "only by the user who owns it")
	b.early(in, subjects["rebuild"], compute.OperationFailed, compute.VMActive, compute.PowerRunning)
	require.Zero(t, b.count(domain.Stop.Name))
	in, err = b.rebuild(rebuildTo(crb))
	require.NoError(t, err, "to the same he may")
	b.whole(in, compute.OpRebuild)
}

// A credential that dies in the middle leaves the server stopped: nobody is there
// to start it with.
func TestRebuildThatCannotBeUndoneWhollyLeavesTheServerStopped(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]compute.Kind{"no credential": compute.Forbidden, "it does not start": compute.NoHost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			b.fault = func(c call) fault {
				if c.name == domain.Start.Name {
					return fault{before: func() error { return compute.Errorf(kind, "no") }}
				}
				return fault{}
			}
			in, err := b.rebuild(rebuildTo(crb))
			require.True(t, compute.Is(durable.FromTemporal(err), kind))
			b.early(in, subjects["rebuild"], compute.OperationFailed, compute.VMStopped, compute.PowerShutdown)
			require.Equal(t, map[compute.Kind]int{compute.Forbidden: 2, compute.NoHost: 17}[kind], b.count(domain.Start.Name))
			b.forget()
			start := b.accept(compute.OpStart, compute.TaskPoweringOn, nil)
			require.NoError(t, b.run(compute.OpStart, start, nil), "its owner starts it")
			b.whole(start, compute.OpStart)
			b.agrees()
		})
	}
}

// A server in ERROR runs again when it is rebuilt.
func TestRebuildOfAServerInError(t *testing.T) {
	t.Parallel()
	b := stopped(t)
	b.row.server.VMState = compute.VMError
	b.row.fault = &compute.Fault{Code: 500, Message: "lost"}
	for file := range b.files {
		if strings.HasSuffix(file, "/disk") {
			delete(b.files, file) // what it is in ERROR for
		}
	}
	in, err := b.rebuild(rebuildTo(crb))
	require.NoError(t, err)
	b.whole(in, compute.OpRebuild)
}

// Keys of the old disks that nobody's credential may remove wait: the rebuild
// ends all the same.
func TestRebuildLeavesKeysWaiting(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	b.refuses = func(compute.Credential) bool { return true }
	in, err := b.rebuild(rebuildTo(crb))
	require.NoError(t, err)
	require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
	found := b.audit()
	require.Len(t, found, 3)
	for _, f := range found {
		require.Equal(t, compute.Waiting, f.What)
	}
	b.refuses = func(compute.Credential) bool { return false }
	b.reaps(3, 0)
	require.Empty(t, b.audit())
	b.agrees()
}

// A delegation that begins with a rebuild is made before anything that takes long: the owner's token may end.
func TestRebuildDelegatesFirst(t *testing.T) {
	t.Parallel()
	b := mayDelegate(t)
	first := b.firstStep()
	_, err := b.rebuild(rebuildTo(crb))
	require.NoError(t, err)
	require.Equal(t, trust.Create.Name, *first)
}

// A server that has no keys any more delegates none: its owner's trust goes with
// them, and stays while it may be needed to remove them.
func TestRebuildEndsADelegation(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"removed": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := delegated(t)
			require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
			b.forget()
			require.Len(t, b.trusts, 1)
			b.refuses = func(compute.Credential) bool { return refused }
			in, err := b.rebuild(rebuildTo(nil))
			require.NoError(t, err)
			require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
			if !refused {
				b.whole(in, compute.OpRebuild)
				require.Empty(t, b.trusts)
				return
			}
			require.Len(t, b.audit(), 5, "four keys, and the trust that may remove them")
			require.Len(t, b.trusts, 1)
			b.refuses = func(compute.Credential) bool { return false }
			b.reaps(4, 1)
			b.reaps(1, 0)
			require.Empty(t, b.audit())
			gone := b.deletion()
			require.NoError(t, b.run(compute.OpDelete, gone, nil))
			b.gone(gone)
		})
	}
}

// A server that was paused when its state was reset to error runs again when its
// rebuild is undone: what its guest had in memory went when it was shut down.
func TestAPausedServerRunsAfterARebuildThatFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failing int // starts, from the first on
		power   compute.PowerState
	}{"the old guest starts": {1, compute.PowerRunning}, "it does not start": {100, compute.PowerShutdown}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			b.row.server.VMState, b.row.server.PowerState = compute.VMError, compute.PowerPaused
			for machine := range b.domains {
				b.domains[machine] = compute.PowerPaused
			}
			b.fault = func(called call) fault {
				if called.name == domain.Start.Name && called.nth <= c.failing {
					return fault{before: fail}
				}
				return fault{}
			}
			_, err := b.rebuild(rebuildTo(crb))
			require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
			require.Equal(t, compute.VMError, b.row.server.VMState)
			require.Equal(t, c.power, b.row.server.PowerState)
			require.Equal(t, []compute.PowerState{c.power}, b.power())
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
		})
	}
}
