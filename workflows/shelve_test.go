package workflows_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/object"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// shelved is a bench with a server that is shelved on its host.
func shelved(t *testing.T) *bench {
	b := spawned(t)
	require.NoError(t, b.shelveIt(compute.NeverOffload))
	b.forget()
	return b
}

// offloaded is a bench with a server that is shelved and on no host.
func offloaded(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		require.NoError(t, b.shelveIt(0))
		b.forget()
		return b
	}
}

// onItsKey is a bench with a server whose root disk lies on an encrypted image.
func onItsKey(t *testing.T) *bench {
	b := onEncryptedImage(t)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.forget()
	return b
}

func (b *bench) shelveIt(after int) error {
	b.t.Helper()
	return b.run(compute.OpShelve, b.accept(compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{OffloadAfter: after}), nil)
}

func (b *bench) unshelveIt(in compute.UnshelveArguments) error {
	b.t.Helper()
	return b.run(compute.OpUnshelve, b.accept(compute.OpUnshelve, compute.TaskUnshelving, in), nil)
}

func shelves(kind compute.OperationKind) bool {
	return slices.Contains([]compute.OperationKind{compute.OpShelve, compute.OpShelveOffload, compute.OpUnshelve}, kind)
}

// keepsShelved requires that there are the images and the object that the record says, and
// no others: none of a server that is not shelved; and on hosts nothing of an offloaded one.
func (b *bench) keepsShelved() {
	t, s := b.t, b.row.server
	t.Helper()
	if s.VMState == compute.VMError { // nothing began
		return
	}
	var images, objects []string
	for _, d := range s.Disks {
		if d.Shelved != nil {
			images = append(images, d.Shelved.Image.String())
		}
		require.Equal(t, d.Encrypted, d.Secret != nil)
	}
	is := s.VMState == compute.VMShelved || s.VMState == compute.VMShelvedOffloaded
	require.Equal(t, is, len(images) == len(s.Disks), s.VMState)
	if stored := s.StoredTPM(); stored != nil {
		objects = append(objects, stored.Object)
		require.Equal(t, sumOf(b.stored[stored.Object]), stored.SHA256)
	}
	require.Equal(t, is && s.TPM != nil, len(objects) == 1)
	nvram := s.StoredNVRAM()
	require.Equal(t, is && s.NVRAM() != "", nvram != nil)
	if nvram != nil {
		objects = append(objects, nvram.Object)
		require.Equal(t, sumOf(b.stored[nvram.Object]), nvram.SHA256)
	}
	if s.TPMBackup != nil {
		objects = append(objects, s.TPMBackup.Object)
	}
	require.ElementsMatch(t, images, keysOf(b.images))
	require.ElementsMatch(t, objects, keysOf(b.stored))
	require.Empty(t, b.exports)
	for _, id := range s.Secrets() {
		require.True(t, b.has(&id))
	}
	if s.VMState == compute.VMShelvedOffloaded {
		require.Nil(t, s.Host)
		require.Empty(t, b.claims)
		require.Empty(t, b.domains)
		require.Empty(t, b.files)
		require.Empty(t, b.tpms)
		require.Empty(t, b.uses)
		return
	}
	require.Len(t, b.claims, 1)
	require.Len(t, b.domains, 1)
}

// keptIn is the object that keeps one of a server's things while it is shelved: tpm, nvram.
func (b *bench) keptIn(what string) string {
	b.t.Helper()
	for _, name := range keysOf(b.stored) {
		if strings.HasPrefix(name, what+"/") {
			return name
		}
	}
	require.Fail(b.t, "it is kept nowhere", what)
	return ""
}

func keysOf[V any](m map[string]V) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}
	return out
}

// EE-25, TPM-21, TPM-22, TPM-23, TPM-25: a server that was shelved and left its host comes
// back with its own keys, none of them made anew, and with the very state of its TPM. What
// kept it is gone then, and with it the key of the image that was under its root disk.
func TestShelveAndUnshelve(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{
		"encrypted": spawned, "plain": plain, "stopped": stopped, "paused": paused, "of an encrypted image": onItsKey, "UEFI": onUEFI,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			was, state := b.row.server, b.states[b.row.server.Host.String()+" "+b.row.server.ID.String()]
			keys := len(b.secrets)
			require.NoError(t, b.shelveIt(0))
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
			require.Equal(t, compute.VMShelvedOffloaded, b.row.server.VMState)
			b.keepsShelved()
			require.Len(t, b.secrets, keys, "no key is made, none goes")
			for _, d := range b.row.server.Disks {
				img := b.images[d.Shelved.Image.String()]
				if d.Encrypted {
					require.Equal(t, d.Secret.String(), img.Properties["os_encrypt_key_id"])
					require.False(t, img.KeyGoes(), "it is the server's")
				}
				if was.TPM != nil {
					require.Equal(t, []string{"2.0", "tpm-crb"}, []string{img.Properties["hw_tpm_version"], img.Properties["hw_tpm_model"]})
				}
				require.NotContains(t, img.Properties, compute.SystemTPMObject, "TPM-38")
			}
			require.NoError(t, b.unshelveIt(compute.UnshelveArguments{}))
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
			now := b.row.server
			require.Equal(t, compute.VMActive, now.VMState)
			b.keepsShelved()
			require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
			require.Equal(t, state, b.states[now.Host.String()+" "+now.ID.String()])
			require.Equal(t, was.TPM, now.TPM)
			for i, d := range now.Disks {
				require.Equal(t, was.Disks[i].ID, d.ID)
				require.Equal(t, was.Disks[i].Secret, d.Secret)
				require.Nil(t, d.BackingSecret)
			}
			require.Len(t, b.secrets, len(now.Secrets())+len(b.owned))
		})
	}
}

// TPM-24: one that is still on its host is started there.
func TestUnshelveOfOneThatStayed(t *testing.T) {
	t.Parallel()
	b := shelved(t)
	was := b.row.server
	require.NoError(t, b.unshelveIt(compute.UnshelveArguments{}))
	require.Zero(t, b.count(tpm.Restore.Name))
	require.Equal(t, was.Host, b.row.server.Host)
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	b.keepsShelved()
	require.Empty(t, b.audit())
}

// TPM-26: an object or an image that is missing or another one fails the unshelve, which
// loses nothing: put back, it works.
func TestUnshelveOfWhatIsNotWhatWasKept(t *testing.T) {
	t.Parallel()
	another := func(kept string) func(*bench) func() {
		return func(b *bench) func() {
			object := b.keptIn(kept)
			was := b.stored[object]
			b.stored[object] = "other"
			return func() { b.stored[object] = was }
		}
	}
	no := func(kept string) func(*bench) func() {
		return func(b *bench) func() {
			object := b.keptIn(kept)
			was := b.stored[object]
			delete(b.stored, object)
			return func() { b.stored[object] = was }
		}
	}
	for name, v := range map[string]struct {
		setup func(*testing.T) *bench
		kind  compute.Kind
		spoil func(b *bench) (repair func())
	}{
		"another object": {spawned, compute.Corrupt, another("tpm")},
		"no object":      {spawned, compute.NotFound, no("tpm")},
		"another NVRAM":  {onUEFI, compute.Corrupt, another("nvram")},
		"no NVRAM":       {onUEFI, compute.NotFound, no("nvram")},
		"NVRAM is not kept": {onUEFI, "", func(b *bench) func() {
			was := b.row.server.System
			b.row.server.System = maps.Clone(was)
			delete(b.row.server.System, compute.SystemNVRAMObject)
			return func() { b.row.server.System = was }
		}},
		"no image": {spawned, compute.NotFound, func(b *bench) func() {
			id := b.row.server.Disks[0].Shelved.Image.String()
			was := b.images[id]
			delete(b.images, id)
			return func() { b.images[id] = was }
		}},
		"another vTPM (TPM-37)": {spawned, compute.Conflict, func(b *bench) func() {
			img := b.images[b.row.server.Disks[0].Shelved.Image.String()]
			img.Properties["hw_tpm_version"], img.Properties["hw_tpm_model"] = "1.2", "tpm-tis"
			return func() { img.Properties["hw_tpm_version"], img.Properties["hw_tpm_model"] = "2.0", "tpm-crb" }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := offloaded(v.setup)(t)
			repair := v.spoil(b)
			err := b.unshelveIt(compute.UnshelveArguments{})
			require.Equal(t, v.kind, durable.FromTemporal(err).Kind, "%v", err)
			require.Equal(t, compute.VMShelvedOffloaded, b.row.server.VMState)
			repair()
			b.keepsShelved()
			require.Empty(t, b.audit())
			require.NoError(t, b.unshelveIt(compute.UnshelveArguments{}))
			b.keepsShelved()
			require.Equal(t, compute.VMActive, b.row.server.VMState)
		})
	}
}

// TPM-36: who may not read the keys is refused before anything is made.
func TestUnshelveByWhoMayNotReadTheKeys(t *testing.T) {
	t.Parallel()
	b := offloaded(spawned)(t)
	b.unreadable = true
	err := b.unshelveIt(compute.UnshelveArguments{})
	require.Error(t, err)
	require.Equal(t, compute.Forbidden, durable.FromTemporal(err).Kind)
	b.unreadable = false
	require.Equal(t, compute.VMShelvedOffloaded, b.row.server.VMState)
	b.keepsShelved()
	require.Zero(t, b.count(image.CheckShelved.Name))
}

// TPM-32: a delete removes images, object and keys, wherever a server stands.
func TestDeleteOfAShelvedServer(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{
		"between shelve and offload": shelved, "offloaded": offloaded(spawned),
		"in error, after an unshelve that was terminated": func(t *testing.T) *bench {
			b := offloaded(spawned)(t)
			b.row.server.VMState = compute.VMError
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			require.NotEmpty(t, b.stored)
			require.NoError(t, b.run(compute.OpDelete, b.accept(compute.OpDelete, compute.TaskDeleting, nil), nil))
			require.Empty(t, b.things())
			require.Empty(t, b.ledger)
			require.Empty(t, b.broken)
		})
	}
}

// A host can be asked for. Where it cannot be reached nobody else is tried.
func TestUnshelveToAHost(t *testing.T) {
	t.Parallel()
	b := offloaded(spawned)(t)
	require.NoError(t, b.unshelveIt(compute.UnshelveArguments{Host: &b.hosts[1]}))
	require.Equal(t, b.hosts[1], *b.row.server.Host)
	b.keepsShelved()

	b = offloaded(spawned)(t)
	err := b.unshelveIt(compute.UnshelveArguments{Host: &compute.HostID{UUID: uuid.New()}})
	require.Equal(t, compute.NoHost, durable.FromTemporal(err).Kind)
	b.keepsShelved()
}

// TPM-27: what is kept is the owner's when an administrator of another project shelves.
func TestShelveByAnAdministrator(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.accept(compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{})
	b.operations[in.Operation].Credential.ProjectID = "another"
	require.NoError(t, b.run(compute.OpShelve, in, nil))
	kept := 0
	for _, thing := range b.ledger {
		if thing.Kind == compute.ThingImage || thing.Kind == compute.ThingObject {
			kept++
			require.Equal(t, compute.MemberCredential(project), thing.Credential)
		}
	}
	require.Equal(t, len(b.row.server.Disks)+1, kept)
	require.Equal(t, 1, b.count(record.Shelve.Name))
}

// An offload removes nothing from the host while something of what keeps the server's data
// is missing: its owner may have deleted it.
func TestAnOffloadLooksBeforeItRemoves(t *testing.T) {
	t.Parallel()
	object := func(kept string) func(*bench) {
		return func(b *bench) { delete(b.stored, b.keptIn(kept)) }
	}
	digest := func(kept string) func(*bench) {
		return func(b *bench) { b.stored[b.keptIn(kept)] = "another one" }
	}
	for name, c := range map[string]struct {
		setup func(*testing.T) *bench
		lose  func(*bench)
	}{
		"an image":                {spawned, func(b *bench) { delete(b.images, keysOf(b.images)[0]) }},
		"the object":              {spawned, object("tpm")},
		"its sha256":              {spawned, digest("tpm")},
		"the NVRAM":               {onUEFI, object("nvram")},
		"the sha256 of the NVRAM": {onUEFI, digest("nvram")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := shelvedHere(c.setup)(t)
			files, tpms := len(b.files), len(b.tpms)
			c.lose(b)
			in := b.accept(compute.OpShelveOffload, compute.TaskShelvingOffloading, nil)
			require.Error(t, b.run(compute.OpShelveOffload, in, nil))
			require.Equal(t, compute.VMShelved, b.row.server.VMState)
			require.NotNil(t, b.row.server.Host)
			require.Len(t, b.files, files)
			require.Len(t, b.tpms, tpms)
		})
	}
}

// An offload that begins by itself needs no role of strongroom's in the owner's project: only
// one that somebody asked for is refused when its user may not look at the images.
func TestAnOffloadThatBeginsByItselfNeedsNoRole(t *testing.T) {
	t.Parallel()
	for _, itself := range []bool{true, false} {
		t.Run(strconv.FormatBool(itself), func(t *testing.T) {
			t.Parallel()
			b := shelved(t)
			in := b.accept(compute.OpShelveOffload, compute.TaskShelvingOffloading, nil)
			if itself {
				b.operations[in.Operation].Credential = compute.MemberCredential(project)
			}
			refused := compute.Errorf(compute.Forbidden, "the login to the project is refused")
			err := b.run(compute.OpShelveOffload, in, func(*testsuite.TestWorkflowEnvironment) {
				b.fault = func(c call) fault {
					return fault{before: func() error {
						if c.name == image.CheckShelved.Name {
							return refused
						}
						return nil
					}}
				}
			})
			if itself {
				require.NoError(t, err)
				require.Equal(t, compute.VMShelvedOffloaded, b.row.server.VMState)
				return
			}
			require.Equal(t, refused.Message, durable.FromTemporal(err).Message)
			require.Equal(t, compute.VMShelved, b.row.server.VMState)
		})
	}
}

// A server whose guest may still run, on a host that gave no answer to its undo, is started
// nowhere else, and its data are not given up.
func TestAShelvedServerThatMayRunStaysWhereItIs(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		setup func(*testing.T) *bench
		kind  compute.OperationKind
		task  compute.TaskState
		in    any
		on    int // which host may run it
	}{
		"unshelve": {offloaded(spawned), compute.OpUnshelve, compute.TaskUnshelving, compute.UnshelveArguments{}, 0},
		"offload":  {shelved, compute.OpShelveOffload, compute.TaskShelvingOffloading, nil, 0},
		"shelve":   {spawned, compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := v.setup(t)
			was := b.row.server.VMState
			b.also(compute.ThingRunningDomain, b.hosts[v.on].String(), compute.InstanceName(b.row.server.ID))
			err := b.run(v.kind, b.accept(v.kind, v.task, v.in), nil)
			require.Contains(t, durable.FromTemporal(err).Message, "may still run the server")
			require.Equal(t, was, b.row.server.VMState)
			require.Len(t, b.domains, len(b.claims))
		})
	}
}

// A shelve does not store what a resize that failed made of the state of the vTPM: it waits until that was put back.
func TestShelveWaitsForATPMThatIsToBePutBack(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	key := b.tpmKey(b.hosts[0].String(), b.row.server.ID.String())
	state := b.states[key]
	b.fault = at(call{name: tpm.PutBack.Name, nth: 1}, fault{after: func() error {
		b.down[b.hosts[0]] = true
		return errBroken
	}})
	require.Error(t, b.resizeIt(here(otherTPM)))
	b.fault = nil
	require.NotEqual(t, state, b.states[key])
	shelve := func() error {
		return b.run(compute.OpShelve, b.accept(compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}), nil)
	}
	require.ErrorContains(t, shelve(), "still to be put back")
	require.Empty(t, b.stored)
	clear(b.down)
	b.reapAll()
	require.Equal(t, state, b.states[key])
	require.NoError(t, shelve())
	require.Contains(t, slices.Collect(maps.Values(b.stored)), state)
	require.Empty(t, b.audit())
	require.Empty(t, b.broken)
}

// K20: a shelve does not keep another server's state and drop the good backup: of a server that is off since that was made, the two are the same. A start
// tells whether the state is its own.
func TestK20ShelveOfAServerWithAnotherStateThanItsBackup(t *testing.T) {
	t.Parallel()
	b := tpmBackedUp(stopped)(t)
	shelve := func() error {
		return b.run(compute.OpShelve, b.accept(compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}), nil)
	}
	has, good, stored := b.listed(), *b.row.server.TPMBackup, maps.Clone(b.stored)
	b.tpmChanges()
	require.ErrorContains(t, shelve(), "its TPM state is not the one that was backed up when it was stopped")
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	require.Equal(t, good, *b.row.server.TPMBackup)
	require.Equal(t, stored, b.stored)
	require.Equal(t, has, b.listed())
	require.Zero(t, b.count(image.Create.Name), "nothing is made before")
	require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
	require.NoError(t, shelve())
	require.Empty(t, b.backups())
	require.Empty(t, b.audit())
	require.Empty(t, b.broken)
}

// A host that refuses the server, or takes no work before the guest was started there, is left
// with nothing, and another one is claimed.
func TestUnshelveGoesOnWithAnotherHost(t *testing.T) {
	t.Parallel()
	full := fault{before: func() error { return compute.Errorf(compute.NoHost, "no room") }}
	for name, fails := range map[string]call{
		"no room for a disk": {name: disk.Restore.Name, nth: 2}, "QEMU does not run it": {name: domain.Start.Name, nth: 1},
		"no room for the state of its TPM": {name: tpm.Restore.Name, nth: 1}, "no room for the disks together": {name: disk.CheckRoom.Name, nth: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := offloaded(spawned)(t)
			b.fault = at(fails, full)
			require.NoError(t, b.unshelveIt(compute.UnshelveArguments{}))
			require.Equal(t, b.hosts[1], *b.row.server.Host)
			b.keepsShelved()
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
			for _, s := range b.things() {
				require.NotEqual(t, b.hosts[0].String(), s.Place, s.Name)
			}
		})
	}
	t.Run("it was asked for", func(t *testing.T) {
		t.Parallel()
		b := offloaded(spawned)(t)
		b.fault = at(call{name: disk.Restore.Name, nth: 1}, full)
		err := b.unshelveIt(compute.UnshelveArguments{Host: &b.hosts[0]})
		require.Equal(t, "no room", durable.FromTemporal(err).Message)
		b.keepsShelved()
		require.Empty(t, b.audit())
	})
	t.Run("all refuse", func(t *testing.T) {
		t.Parallel()
		b := offloaded(spawned)(t)
		b.fault = func(c call) fault {
			if c.name == tpm.Restore.Name {
				return full
			}
			return fault{}
		}
		err := b.unshelveIt(compute.UnshelveArguments{})
		require.Equal(t, "no room", durable.FromTemporal(err).Message, "what the last one said")
		require.Equal(t, len(b.hosts), b.count(tpm.Restore.Name))
		b.keepsShelved()
		require.Empty(t, b.audit())
	})
	t.Run("it is silent", func(t *testing.T) {
		t.Parallel()
		b := offloaded(spawned)(t)
		var begun atomic.Bool
		b.fault = at(call{name: disk.CheckRoom.Name, nth: 1}, fault{after: func() error {
			begun.Store(true)
			return nil
		}})
		in := b.accept(compute.OpUnshelve, compute.TaskUnshelving, compute.UnshelveArguments{})
		require.NoError(t, b.run(compute.OpUnshelve, in, silenced(&silence{hosts: b.hosts[:1], quick: true, since: &begun})))
		require.Equal(t, b.hosts[1], *b.row.server.Host)
		require.Equal(t, compute.VMActive, b.row.server.VMState)
		b.fault = nil
		b.reapAll()
		b.keepsShelved()
		require.Empty(t, b.audit())
	})
}

// One that was set to ERROR while it is shelved comes back, wherever its data are; so does one
// of which an operation that was terminated left a part on a host, unless it may run there.
func TestUnshelveFromError(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		setup func(*testing.T) *bench
		kept  int // images that are downloaded
	}{
		"offloaded":         {offloaded(spawned), 3},
		"on its host":       {shelved, 0},
		"in part on a host": {func(t *testing.T) *bench { return cutOff(t, tpm.Restore.Name) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := v.setup(t)
			b.row.server.VMState = compute.VMError
			require.NoError(t, b.unshelveIt(compute.UnshelveArguments{}))
			require.Equal(t, v.kept, b.count(disk.Restore.Name))
			require.Equal(t, compute.VMActive, b.row.server.VMState)
			b.keepsShelved()
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
		})
	}
	t.Run("it may run", func(t *testing.T) {
		t.Parallel()
		b := cutOff(t, domain.Start.Name)
		err := b.unshelveIt(compute.UnshelveArguments{})
		require.Contains(t, durable.FromTemporal(err).Message, "may still run the server")
	})
	t.Run("it is not shelved", func(t *testing.T) {
		t.Parallel()
		b := spawned(t)
		b.row.server.VMState = compute.VMError
		err := b.unshelveIt(compute.UnshelveArguments{})
		require.Contains(t, durable.FromTemporal(err).Message, "while it is in vm_state error")
		require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
	})
}

// cutOff is a bench with a server in ERROR whose unshelve was terminated at a call: what it
// made is where it is.
func cutOff(t *testing.T, name string) *bench {
	t.Helper()
	b := offloaded(spawned)(t)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	c := call{name: name, nth: 1}
	b.fault = func(now call) fault {
		if now.String() == c.String() || b.reached(c) {
			return fault{before: func() error { <-never; return errBroken }}
		}
		return fault{}
	}
	in := b.accept(compute.OpUnshelve, compute.TaskUnshelving, compute.UnshelveArguments{})
	func() {
		defer func() { _ = recover() }() // the environment gives up on a workflow that stands still
		_ = b.run(compute.OpUnshelve, in, func(env *testsuite.TestWorkflowEnvironment) { env.SetTestTimeout(time.Second / 2) })
	}()
	require.NotEmpty(t, b.files, "a part is on the host")
	b.forget()
	b.row.server.VMState = compute.VMError
	return b
}

// EE-30, TPM-36: whatever refuses a shelve that is asked before anything is done (a key, the
// image store, the object store) refuses it while the guest runs: it is never stopped.
func TestAShelveThatIsRefusedStopsNoGuest(t *testing.T) {
	t.Parallel()
	for _, name := range []string{key.Check.Name, object.Check.Name, image.Create.Name} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			was := b.row.server
			b.fault = at(call{name: name, nth: 1}, fault{before: func() error { return compute.Errorf(compute.Forbidden, "you may not") }})
			err := b.shelveIt(0)
			require.Error(t, err)
			require.Equal(t, compute.Forbidden, durable.FromTemporal(err).Kind)
			require.NotZero(t, b.count(name))
			require.Zero(t, b.count(domain.Stop.Name), "it ran on")
			require.Zero(t, b.count(domain.Start.Name))
			require.Equal(t, []any{was.VMState, was.PowerState, was.Host}, []any{b.row.server.VMState, b.row.server.PowerState, b.row.server.Host})
			b.keepsShelved()
			require.Empty(t, b.audit())
		})
	}
}
