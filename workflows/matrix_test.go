package workflows_test

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/integration/seed"
)

// subject is an operation on the bench: how it begins, and how the server is
// left when it ends early.
type subject struct {
	kind      compute.OperationKind
	task      compute.TaskState
	arguments any
	setup     func(*testing.T) *bench
	// undone gives the server's state when the operation ended early, at a call
	// that comes at the index in the calls of an undisturbed run. reached says
	// that this call still took effect.
	undone func(calls []call, index int, reached bool) (compute.VMState, compute.PowerState)
	// decides is the activity from which the effect stands: record.Settle if empty.
	decides string
}

// decision is the call from which the operation's effect stands.
func (s subject) decision(calls []call) int {
	return slices.IndexFunc(calls, func(c call) bool { return c.name == cmp.Or(s.decides, record.Settle.Name) })
}

// cancellable is the last call at which a cancel undoes. retried says that it does not if
// the call fails too: it is tried until it is answered.
func (s subject) cancellable(calls []call) (last int, retried bool) {
	return s.decision(calls), s.decides != ""
}

// leftAt is how the server is left by an operation that failed at a call: one that could not
// even begin knows nothing of it.
func (s subject) leftAt(calls []call, index int) (compute.VMState, compute.PowerState) {
	if calls[index].name == record.Begin.Name {
		return compute.VMError, compute.PowerNone
	}
	return s.undone(calls, index, false)
}

func always(vm compute.VMState, power compute.PowerState) func([]call, int, bool) (compute.VMState, compute.PowerState) {
	return func([]call, int, bool) (compute.VMState, compute.PowerState) { return vm, power }
}

// afterShutdown is how a reboot leaves a server: stopped once it was shut down.
func afterShutdown(calls []call, index int, _ bool) (compute.VMState, compute.PowerState) {
	down := slices.IndexFunc(calls, func(c call) bool { return c.name == domain.Stop.Name })
	if index > down {
		return compute.VMStopped, compute.PowerShutdown
	}
	return compute.VMActive, compute.PowerRunning
}

var subjects = map[string]subject{
	"spawn": {
		compute.OpCreate, compute.TaskScheduling, nil,
		func(t *testing.T) *bench { return newBench(t, true) }, always(compute.VMError, compute.PowerNone), "",
	},
	"spawn plain": {
		compute.OpCreate, compute.TaskScheduling, nil,
		func(t *testing.T) *bench { return newBench(t, false) }, always(compute.VMError, compute.PowerNone), "",
	},
	"spawn delegated": {
		compute.OpCreate, compute.TaskScheduling, nil, delegated, always(compute.VMError, compute.PowerNone), "",
	},
	"spawn with ports": {
		compute.OpCreate, compute.TaskScheduling, nil, onPorts, always(compute.VMError, compute.PowerNone), "",
	},
	"start with ports":             {compute.OpStart, compute.TaskPoweringOn, nil, shutOffWith(plugged), shutOff(), ""},
	"reboot with ports":            {compute.OpReboot, compute.TaskRebootingHard, compute.RebootArguments{Hard: true}, plugged, afterShutdown, ""},
	"resume with ports":            {compute.OpResume, compute.TaskResuming, nil, suspendedFrom(plugged), always(compute.VMSuspended, compute.PowerShutdown), ""},
	"rebuild with ports":           {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(nil), plugged, running(), record.Rebuild.Name},
	"rescue with ports":            {compute.OpRescue, compute.TaskRescuing, compute.RescueArguments{Image: rescueImage}, plugged, running(), ""},
	"unrescue with ports":          {compute.OpUnrescue, compute.TaskUnrescuing, nil, rescuedFrom(plugged), always(compute.VMRescued, compute.PowerRunning), record.Unrescue.Name},
	"shelve with ports":            {compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}, plugged, running(), record.Shelve.Name},
	"unshelve with ports":          {compute.OpUnshelve, compute.TaskUnshelving, compute.UnshelveArguments{}, offloaded(plugged), always(compute.VMShelvedOffloaded, compute.PowerShutdown), record.Unshelve.Name},
	"resize with ports":            {compute.OpResize, compute.TaskResizePrep, here(nil), plugged, running(), ""},
	"migrate with ports":           {compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, plugged, running(), ""},
	"migrate of a stopped, ports":  {compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, shutOffWith(plugged), shutOff(), ""},
	"confirm with ports":           {compute.OpConfirmResize, compute.TaskResizeConfirming, nil, migrated(plugged), toVerify(), record.ConfirmResize.Name},
	"revert with ports":            {compute.OpRevertResize, compute.TaskResizeReverting, nil, migrated(plugged), toVerify(), record.RevertResize.Name},
	"revert of a stopped, ports":   {compute.OpRevertResize, compute.TaskResizeReverting, nil, migrated(shutOffWith(plugged)), verifyOff(), record.RevertResize.Name},
	"evacuate with ports":          {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, fenced(plugged), running(), record.Evacuate.Name},
	"evacuate of a stopped, ports": {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, fenced(shutOffWith(plugged)), shutOff(), record.Evacuate.Name},
	"spawn of an encrypted image": {
		compute.OpCreate, compute.TaskScheduling, nil, onEncryptedImage, always(compute.VMError, compute.PowerNone), "",
	},
	"spawn, UEFI": {
		compute.OpCreate, compute.TaskScheduling, nil, func(t *testing.T) *bench { return newUEFI(t) }, always(compute.VMError, compute.PowerNone), "",
	},
	"rebuild to UEFI":            {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(secureBoot), spawned, running(), record.Rebuild.Name},
	"rebuild, UEFI":              {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(secureBoot), onUEFI, running(), record.Rebuild.Name},
	"rebuild to BIOS":            {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), shutOffWith(onUEFI), shutOff(), record.Rebuild.Name},
	"rescue, UEFI":               {compute.OpRescue, compute.TaskRescuing, compute.RescueArguments{Image: rescueImage}, onUEFI, running(), ""},
	"resize, UEFI":               {compute.OpResize, compute.TaskResizePrep, here(nil), onUEFI, running(), ""},
	"migrate, UEFI":              {compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, onUEFI, running(), ""},
	"migrate of a stopped, UEFI": {compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, shutOffWith(onUEFI), shutOff(), ""},
	"confirm, UEFI":              {compute.OpConfirmResize, compute.TaskResizeConfirming, nil, resized(onUEFI, here(nil)), toVerify(), record.ConfirmResize.Name},
	"revert, UEFI":               {compute.OpRevertResize, compute.TaskResizeReverting, nil, resized(onUEFI, here(nil)), toVerify(), record.RevertResize.Name},
	"revert elsewhere, UEFI":     {compute.OpRevertResize, compute.TaskResizeReverting, nil, migrated(onUEFI), toVerify(), record.RevertResize.Name},
	"shelve, UEFI":               {compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}, onUEFI, running(), record.Shelve.Name},
	"unshelve, UEFI":             {compute.OpUnshelve, compute.TaskUnshelving, compute.UnshelveArguments{}, offloaded(onUEFI), always(compute.VMShelvedOffloaded, compute.PowerShutdown), record.Unshelve.Name},
	"evacuate, UEFI":             {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, fenced(onUEFI), running(), record.Evacuate.Name},
	"snapshot of a running server": {
		compute.OpCreateImage, compute.TaskSnapshotPending, compute.SnapshotArguments{Image: imageID, Name: "copy", Key: compute.KeySame},
		spawned, always(compute.VMActive, compute.PowerRunning), record.HandOver.Name,
	},
	"snapshot of a stopped server": {
		compute.OpCreateImage, compute.TaskSnapshotPending, compute.SnapshotArguments{Image: imageID, Name: "copy", Key: compute.KeyNew},
		stopped, always(compute.VMStopped, compute.PowerShutdown), record.HandOver.Name,
	},
	"backup": {
		compute.OpCreateBackup, compute.TaskSnapshotPending,
		compute.SnapshotArguments{Image: imageID, Name: "copy", Key: compute.KeySame, Backup: &compute.Backup{Type: "daily", Rotation: 1}},
		backedUp, always(compute.VMActive, compute.PowerRunning), record.HandOver.Name,
	},
	"start":       {compute.OpStart, compute.TaskPoweringOn, nil, stopped, always(compute.VMStopped, compute.PowerShutdown), ""},
	"stop":        {compute.OpStop, compute.TaskPoweringOff, nil, spawned, always(compute.VMActive, compute.PowerRunning), ""},
	"reboot soft": {compute.OpReboot, compute.TaskRebooting, compute.RebootArguments{}, spawned, afterShutdown, ""},
	"reboot hard": {compute.OpReboot, compute.TaskRebootingHard, compute.RebootArguments{Hard: true}, spawned, afterShutdown, ""},

	"share attach": {
		compute.OpShareAttach, compute.TaskAttachingShare, compute.ShareArguments{Share: shareID, Address: "192.0.2.1"}, attaching,
		always(compute.VMStopped, compute.PowerShutdown), "",
	},

	"interface attach": {
		compute.OpInterfaceAttach, compute.TaskAttachingInterface, newInterface, spawned, always(compute.VMActive, compute.PowerRunning), "",
	},
	"interface attach of a stopped server": {
		compute.OpInterfaceAttach, compute.TaskAttachingInterface, broughtInterface, stopped, always(compute.VMStopped, compute.PowerShutdown), "",
	},
	"interface detach": {
		compute.OpInterfaceDetach, compute.TaskDetachingInterface, compute.InterfaceDetachArguments{Port: broughtPort}, withInterface(spawned),
		always(compute.VMActive, compute.PowerRunning), record.DropPort.Name,
	},

	"pause":   {compute.OpPause, compute.TaskPausing, nil, spawned, always(compute.VMActive, compute.PowerRunning), ""},
	"unpause": {compute.OpUnpause, compute.TaskUnpausing, nil, paused, always(compute.VMPaused, compute.PowerPaused), ""},

	"suspend": {compute.OpSuspend, compute.TaskSuspending, nil, plain, always(compute.VMActive, compute.PowerRunning), ""},
	"suspend of an encrypted server": {
		compute.OpSuspend, compute.TaskSuspending, nil, encrypting(spawned), always(compute.VMActive, compute.PowerRunning), "",
	},
	"resume of an encrypted server": {
		compute.OpResume, compute.TaskResuming, nil, suspendedFrom(encrypting(spawned)), always(compute.VMSuspended, compute.PowerShutdown), "",
	},
	"resume": {compute.OpResume, compute.TaskResuming, nil, suspended, always(compute.VMSuspended, compute.PowerShutdown), ""},

	"crash dump":             {compute.OpCrashDump, compute.TaskCrashDump, nil, spawned, always(compute.VMActive, compute.PowerRunning), ""},
	"crash dump of a paused": {compute.OpCrashDump, compute.TaskCrashDump, nil, paused, always(compute.VMPaused, compute.PowerPaused), ""},

	// Running and stopped, and each of the cases of the vTPM that is no refusal (TPM-29).
	"rebuild":                        {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), spawned, running(), record.Rebuild.Name},
	"rebuild of a stopped":           {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), stopped, shutOff(), record.Rebuild.Name},
	"rebuild without the TPM":        {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(luks), spawned, running(), record.Rebuild.Name},
	"rebuild to plain of a stopped":  {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(nil), stopped, shutOff(), record.Rebuild.Name},
	"rebuild with a TPM":             {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), withoutTPM, running(), record.Rebuild.Name},
	"rebuild with a TPM, stopped":    {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), stoppedWithoutTPM, shutOff(), record.Rebuild.Name},
	"rebuild with delegation":        {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), mayDelegate, running(), record.Rebuild.Name},
	"rebuild to an encrypted image":  {compute.OpRebuild, compute.TaskRebuilding, toEncrypted(), withTheImagesKey(plain), running(), record.Rebuild.Name},
	"rebuild to the same of those":   {compute.OpRebuild, compute.TaskRebuilding, toEncrypted(), onItself, running(), record.Rebuild.Name},
	"rebuild, ephemeral disks apart": {compute.OpRebuild, compute.TaskRebuilding, preserving, spawned, running(), record.Rebuild.Name},

	"rotation of a running server": {compute.OpRotateKeys, compute.TaskRotatingKeys, compute.RotateArguments{}, spawned, running(), record.Rotate.Name},
	"rotation of a stopped server": {
		compute.OpRotateKeys, compute.TaskRotatingKeys, compute.RotateArguments{Disks: []string{"root"}}, stopped, shutOff(), record.Rotate.Name,
	},

	"rescue": {
		compute.OpRescue, compute.TaskRescuing, compute.RescueArguments{Image: rescueImage}, spawned, always(compute.VMActive, compute.PowerRunning), "",
	},
	"rescue of a stopped server": {
		compute.OpRescue, compute.TaskRescuing, compute.RescueArguments{Image: rescueImage}, stopped,
		always(compute.VMStopped, compute.PowerShutdown), "",
	},
	"rescue of a plain server with an encrypted image": {
		compute.OpRescue, compute.TaskRescuing, compute.RescueArguments{Image: sealedImage}, withRescueKey(plain),
		always(compute.VMActive, compute.PowerRunning), "",
	},
	"unrescue": {
		compute.OpUnrescue, compute.TaskUnrescuing, nil, rescuedWith(rescueImage),
		always(compute.VMRescued, compute.PowerRunning), record.Unrescue.Name,
	},
	"shelve": {compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}, spawned, running(), record.Shelve.Name},
	"shelve of a stopped server that stays": {
		compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{OffloadAfter: compute.NeverOffload}, stopped, shutOff(), record.Shelve.Name,
	},
	"shelve of a stopped server, vTPM backed up": {
		compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}, tpmBackedUp(stopped), shutOff(), record.Shelve.Name,
	},
	"offload": {
		compute.OpShelveOffload, compute.TaskShelvingOffloading, nil, shelved, always(compute.VMShelved, compute.PowerShutdown), record.Shelve.Name,
	},
	"unshelve of one that stayed": {
		compute.OpUnshelve, compute.TaskUnshelving, compute.UnshelveArguments{}, shelved,
		always(compute.VMShelved, compute.PowerShutdown), record.Unshelve.Name,
	},
	"unshelve": {
		compute.OpUnshelve, compute.TaskUnshelving, compute.UnshelveArguments{}, offloaded(spawned),
		always(compute.VMShelvedOffloaded, compute.PowerShutdown), record.Unshelve.Name,
	},
	"unshelve of a server of an encrypted image": {
		compute.OpUnshelve, compute.TaskUnshelving, compute.UnshelveArguments{}, offloaded(onItsKey),
		always(compute.VMShelvedOffloaded, compute.PowerShutdown), record.Unshelve.Name,
	},
	"resize":                       {compute.OpResize, compute.TaskResizePrep, here(sameTPM), spawned, running(), ""},
	"resize of a stopped":          {compute.OpResize, compute.TaskResizePrep, here(sameTPM), stopped, shutOff(), ""},
	"resize of a stopped, changed": {compute.OpResize, compute.TaskResizePrep, here(otherTPM), stopped, shutOff(), ""},
	"resize of a stopped, added":   {compute.OpResize, compute.TaskResizePrep, there(sameTPM), stoppedWithoutTPM, shutOff(), ""},
	"resize, another vTPM":         {compute.OpResize, compute.TaskResizePrep, here(otherTPM), spawned, running(), ""},
	"resize without the vTPM":      {compute.OpResize, compute.TaskResizePrep, here(nil), spawned, running(), ""},
	"resize with a vTPM":           {compute.OpResize, compute.TaskResizePrep, here(sameTPM), withoutTPM, running(), ""},
	"resize with delegation":       {compute.OpResize, compute.TaskResizePrep, there(delegatedTPM), mayDelegate, running(), ""},
	"resize, encrypted image":      {compute.OpResize, compute.TaskResizePrep, here(sameTPM), onItsKey, running(), ""},
	"resize elsewhere":             {compute.OpResize, compute.TaskResizePrep, there(sameTPM), spawned, running(), ""},
	"resize elsewhere, changed":    {compute.OpResize, compute.TaskResizePrep, there(otherTPM), spawned, running(), ""},
	"migrate":                      {compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, spawned, running(), ""},
	"migrate of a stopped":         {compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, stopped, shutOff(), ""},
	"migrate, encrypted image":     {compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, onItsKey, running(), ""},

	"migrate, TPM-39":           {compute.OpMigrate, compute.TaskResizePrep, compute.MigrateArguments{}, sharing(spawned), running(), ""},
	"evacuate, TPM-39":          {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, sharing(fenced(spawned)), running(), record.Evacuate.Name},
	"evacuate":                  {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, fenced(spawned), running(), record.Evacuate.Name},
	"evacuate to stay off":      {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{Stopped: true}, fenced(spawned), running(), record.Evacuate.Name},
	"evacuate of a stopped":     {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, fenced(stopped), shutOff(), record.Evacuate.Name},
	"evacuate, no vTPM":         {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, fenced(withoutTPM), running(), record.Evacuate.Name},
	"evacuate, encrypted image": {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, fenced(onItsKey), running(), record.Evacuate.Name},
	"evacuate, backed up":       {compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}, fenced(tpmBackedUp(spawned)), running(), record.Evacuate.Name},
	"start of one evacuated":    {compute.OpStart, compute.TaskPoweringOn, nil, evacuated(stopped), shutOff(), ""},

	"first backup of a vTPM":      {compute.OpBackUpTPM, compute.TaskBackingUpTPM, nil, spawned, running(), record.TPMBackup.Name},
	"next backup of a vTPM":       {compute.OpBackUpTPM, compute.TaskBackingUpTPM, nil, goneOn(tpmBackedUp(spawned)), running(), record.TPMBackup.Name},
	"backup of an unchanged vTPM": {compute.OpBackUpTPM, compute.TaskBackingUpTPM, nil, tpmBackedUp(stopped), shutOff(), record.TPMBackup.Name},
	"rebuild without the TPM, backed up": {
		compute.OpRebuild, compute.TaskRebuilding, rebuildTo(luks), tpmBackedUp(spawned), running(), record.Rebuild.Name,
	},
	"rebuild, vTPM lost":            {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), tpmLost(stopped), shutOff(), record.Rebuild.Name},
	"rebuild, vTPM lost, backed up": {compute.OpRebuild, compute.TaskRebuilding, rebuildTo(crb), tpmLost(tpmBackedUp(stopped)), shutOff(), record.Rebuild.Name},
	"shelve, backed up":             {compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}, tpmBackedUp(spawned), running(), record.Shelve.Name},
	"confirm, backed up": {
		compute.OpConfirmResize, compute.TaskResizeConfirming, nil, resized(tpmBackedUp(spawned), here(otherTPM)), toVerify(), record.ConfirmResize.Name,
	},

	"confirm":                      {compute.OpConfirmResize, compute.TaskResizeConfirming, nil, resized(spawned, here(otherTPM)), toVerify(), record.ConfirmResize.Name},
	"confirm of a stopped":         {compute.OpConfirmResize, compute.TaskResizeConfirming, nil, migrated(stopped), verifyOff(), record.ConfirmResize.Name},
	"confirm elsewhere":            {compute.OpConfirmResize, compute.TaskResizeConfirming, nil, migrated(spawned), toVerify(), record.ConfirmResize.Name},
	"revert":                       {compute.OpRevertResize, compute.TaskResizeReverting, nil, resized(spawned, here(sameTPM)), toVerify(), record.RevertResize.Name},
	"revert, another vTPM":         {compute.OpRevertResize, compute.TaskResizeReverting, nil, resized(spawned, here(otherTPM)), toVerify(), record.RevertResize.Name},
	"revert, vTPM added":           {compute.OpRevertResize, compute.TaskResizeReverting, nil, resized(withoutTPM, here(sameTPM)), toVerify(), record.RevertResize.Name},
	"revert, TPM-39":               {compute.OpRevertResize, compute.TaskResizeReverting, nil, migrated(sharing(spawned)), toVerify(), record.RevertResize.Name},
	"revert of a stopped, changed": {compute.OpRevertResize, compute.TaskResizeReverting, nil, resized(stopped, here(otherTPM)), verifyOff(), record.RevertResize.Name},
	"revert of a stopped":          {compute.OpRevertResize, compute.TaskResizeReverting, nil, resized(stopped, here(sameTPM)), verifyOff(), record.RevertResize.Name},
	"revert of a migration":        {compute.OpRevertResize, compute.TaskResizeReverting, nil, migrated(spawned), toVerify(), record.RevertResize.Name},
	"unrescue from an encrypted image": {
		compute.OpUnrescue, compute.TaskUnrescuing, nil, rescuedWith(sealedImage),
		always(compute.VMRescued, compute.PowerRunning), record.Unrescue.Name,
	},
}

// undisturbed returns the calls of each subject's run that nothing disturbs. The runs are made once.
func undisturbed(t *testing.T) map[string][]call {
	t.Helper()
	runs.once.Do(func() {
		for name, s := range subjects {
			b := s.setup(t)
			require.NoError(t, b.run(s.kind, b.accept(s.kind, s.task, s.arguments), nil))
			calls := b.names()
			if s.kind == compute.OpEvacuate { // what the host has that it left waits for the janitor
				b.reapAll()
			}
			require.Empty(t, b.audit())
			require.Empty(t, b.broken)
			runs.calls[name] = calls
		}
	})
	if len(runs.calls) < len(subjects) {
		t.Fatal("the run of a subject failed")
	}
	return runs.calls
}

var runs = struct {
	once  sync.Once
	calls map[string][]call
}{calls: map[string][]call{}}

// cover chooses the cases of ./task test: for each kind of operation and each call of such operations the first subject, in the order of names,
// that makes it. It returns a number, from 1, for each chosen call of a subject.
func cover(calls map[string][]call) map[string]map[string]int {
	type pair struct {
		kind compute.OperationKind
		call string
	}
	numbers, covered := map[string]map[string]int{}, map[pair]bool{}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		numbers[name] = map[string]int{}
		var those []string
		for _, c := range calls[name] {
			those = append(those, c.String())
		}
		slices.Sort(those) // calls that are under way together come in any order
		for _, c := range those {
			if one := (pair{subjects[name].kind, c}); !covered[one] {
				covered[one] = true
				numbers[name][c] = len(covered)
			}
		}
	}
	return numbers
}

// turn is one of the faults that take turns at the chosen calls, or everyTime.
type turn int

const everyTime turn = -1

// These faults resemble others, which come to each chosen call.
const (
	failsBefore turn = iota
	cancelledAfter
	cancelledAndFails
	serverIsLost
	failsForATime
	turns // how many there are
)

// comesTo reports whether ./task test has the fault at the call of that number. 0 is a call that is not chosen.
func (f turn) comesTo(number int) bool {
	return number > 0 && (f == everyTime || turn(number)%turns == f)
}

// each runs a test for the chosen calls to which a fault comes. ./task test:workflows and -run have every call of every subject.
func each(t *testing.T, f turn, test func(t *testing.T, s subject, calls []call, index int)) {
	t.Helper()
	numbers := cover(undisturbed(t))
	for name, calls := range undisturbed(t) {
		for index, c := range calls {
			if !f.comesTo(numbers[name][c.String()]) && !seed.Whole() {
				continue
			}
			t.Run(name+"/"+c.String(), func(t *testing.T) {
				t.Parallel()
				test(t, subjects[name], calls, index)
			})
		}
	}
}

// Each call of each kind of operation is chosen once, and each of them has one of the faults that take turns.
func TestEachCallOfEachKindIsChosen(t *testing.T) {
	t.Parallel()
	all, once, faults := map[string]bool{}, map[string]int{}, map[turn]int{}
	numbers := cover(undisturbed(t))
	for name, calls := range undisturbed(t) {
		for _, c := range calls {
			key := string(subjects[name].kind) + " " + c.String()
			all[key] = true
			number := numbers[name][c.String()]
			require.Equal(t, number > 0, everyTime.comesTo(number))
			if number == 0 {
				continue
			}
			once[key]++
			for f := range turns {
				if f.comesTo(number) {
					faults[f]++
				}
			}
		}
	}
	require.Greater(t, len(all), 500)
	for key := range all {
		require.Equal(t, 1, once[key], key)
	}
	sum := 0
	for f := range turns {
		require.Greater(t, faults[f], len(all)/10)
		sum += faults[f]
	}
	require.Equal(t, len(all), sum)
}

var errBroken = compute.Errorf(compute.Corrupt, "broken on purpose")

// at makes a fault for the first attempt of one call.
func at(c call, f fault) func(call) fault {
	return func(now call) fault {
		if now.name == c.name && now.nth == c.nth && now.attempt == 1 {
			return f
		}
		return fault{}
	}
}

func fail() error { return errBroken }

// early checks that an operation which ended early left nothing of its own, the
// server as it must be, and its row settled.
func (b *bench) early(in durable.OperationInput, s subject, state compute.OperationState, vm compute.VMState, power compute.PowerState) {
	t := b.t
	t.Helper()
	b.reapAll()
	require.Empty(t, b.broken)
	require.Empty(t, b.audit())
	require.Empty(t, b.lent)
	b.openWithTheirSecrets()
	b.portsFollow()
	op := b.operations[in.Operation]
	require.Equal(t, state, op.State, op.Message)
	for event, result := range b.events {
		require.NotEmpty(t, result, "event %s is still open", event)
	}
	if s.kind == compute.OpCreate {
		require.Empty(t, b.things())
		require.Empty(t, b.ledger)
		require.Empty(t, b.claims)
	}
	if s.kind == compute.OpStart || vm == compute.VMStopped && !moves(s.kind) {
		off := []compute.PowerState{compute.PowerShutdown}
		if b.row.server.Unbooted() { // it has no domain
			off = nil
		}
		require.Equal(t, off, b.power())
	}
	b.keepsBackup()
	if vm == "" {
		return // it is another operation's
	}
	if switches(s.kind) && vm != compute.VMError {
		b.bootsAs(vm, power)
	}
	require.Empty(t, b.row.current)
	require.Equal(t, vm, b.row.server.VMState)
	require.Equal(t, power, b.row.server.PowerState)
	require.Equal(t, compute.TaskNone, b.row.server.TaskState)
	if s.kind == compute.OpRebuild {
		b.agrees()
	}
	if shelves(s.kind) {
		b.keepsShelved()
	}
	if moves(s.kind) {
		b.isWhatItIs()
	}
	if s.kind == compute.OpCreate {
		require.NotNil(t, b.row.fault)
		require.Nil(t, b.row.server.Host)
		for _, d := range b.row.server.Disks {
			require.Nil(t, d.Secret)
			require.Nil(t, d.BackingSecret)
		}
	}
}

// whole checks that an operation reached its end.
func (b *bench) whole(in durable.OperationInput, kind compute.OperationKind) {
	t := b.t
	t.Helper()
	b.reapAll()
	require.Empty(t, b.broken)
	require.Empty(t, b.audit())
	require.Empty(t, b.lent)
	b.openWithTheirSecrets()
	b.portsFollow()
	require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
	require.Empty(t, b.row.current)
	require.Nil(t, b.row.fault)
	vm, power := compute.VMActive, compute.PowerRunning
	if kind == compute.OpRebuild {
		require.Equal(t, newImage(nil).ID, b.row.server.Image.ID)
		b.agrees()
	}
	stays := kind == compute.OpCreateImage || kind == compute.OpRebuild || kind == compute.OpRotateKeys || kind == compute.OpBackUpTPM ||
		kind == compute.OpInterfaceAttach || kind == compute.OpInterfaceDetach
	if kind == compute.OpStop || kind == compute.OpShareAttach || stays && slices.Contains(b.power(), compute.PowerShutdown) {
		vm, power = compute.VMStopped, compute.PowerShutdown
	}
	if kind == compute.OpRescue {
		vm = compute.VMRescued
	}
	if kind == compute.OpPause || kind == compute.OpCrashDump && slices.Contains(b.power(), compute.PowerPaused) {
		vm, power = compute.VMPaused, compute.PowerPaused
	}
	if kind == compute.OpSuspend {
		vm, power = compute.VMSuspended, compute.PowerShutdown
	}
	require.Equal(t, kind == compute.OpSuspend, len(b.suspended) > 0)
	if switches(kind) {
		b.bootsAs(vm, power)
	}
	if now := b.row.server.VMState; kind == compute.OpShelve || kind == compute.OpShelveOffload {
		vm, power = now, compute.PowerShutdown
	}
	if moves(kind) {
		vm, power = b.row.server.VMState, b.row.server.PowerState
		require.Equal(t, kind == compute.OpResize || kind == compute.OpMigrate, vm == compute.VMResized)
		b.isWhatItIs()
	}
	require.Equal(t, vm, b.row.server.VMState)
	require.Equal(t, power, b.row.server.PowerState)
	if shelves(kind) {
		b.keepsShelved()
	}
	if vm != compute.VMShelvedOffloaded && !moves(kind) {
		require.Equal(t, []compute.PowerState{power}, b.power())
	}
	b.keepsBackup()
	require.True(t, b.row.launched)
	for event, result := range b.events {
		require.NotEmpty(t, result, "event %s is still open", event)
	}
}

func TestAFailureAnywhereIsUndone(t *testing.T) {
	t.Parallel()
	for moment, f := range map[string]fault{"having done nothing": {before: fail}, "having done its work": {after: fail}} {
		when := everyTime
		if f.before != nil {
			when = failsBefore
		}
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			each(t, when, func(t *testing.T, s subject, calls []call, index int) {
				b := s.setup(t)
				in := b.accept(s.kind, s.task, s.arguments)
				b.fault = at(calls[index], f)
				err := b.run(s.kind, in, nil)
				if index >= s.decision(calls) {
					require.NoError(t, err)
					b.whole(in, s.kind)
					return
				}
				require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
				vm, power := s.undone(calls, index, false)
				if calls[index].name == record.Begin.Name {
					vm, power = compute.VMError, compute.PowerNone
				}
				b.early(in, s, compute.OperationFailed, vm, power)
				require.Equal(t, errBroken.Message, b.operations[in.Operation].Message)
				if s.kind == compute.OpCreate {
					require.Equal(t, 500, b.row.fault.Code)
					require.Equal(t, errBroken.Message, b.row.fault.Message)
				}
			})
		})
	}
}

func TestACancelAnywhereIsUndone(t *testing.T) {
	t.Parallel()
	for moment, when := range map[string]turn{"before its work": everyTime, "after its work": cancelledAfter, "and it fails": cancelledAndFails} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			each(t, when, func(t *testing.T, s subject, calls []call, index int) {
				b := s.setup(t)
				in := b.accept(s.kind, s.task, s.arguments)
				err := b.run(s.kind, in, func(env *testsuite.TestWorkflowEnvironment) {
					b.fault = at(calls[index], map[string]fault{
						"before its work": {before: func() error {
							env.CancelWorkflow()
							if calls[index].local {
								return nil // these are not cancelled
							}
							return temporal.NewCanceledError()
						}},
						"after its work": {after: func() error { env.CancelWorkflow(); return nil }},
						"and it fails":   {before: func() error { env.CancelWorkflow(); return errBroken }},
					}[moment])
				})
				if calls[index].name == record.Begin.Name && moment == "and it fails" {
					b.early(in, s, compute.OperationFailed, compute.VMError, compute.PowerNone)
					return
				}
				last, retried := s.cancellable(calls)
				if index > last || index == last && (retried || moment != "and it fails") {
					require.NoError(t, err, "it came too late")
					b.whole(in, s.kind)
					return
				}
				require.True(t, temporal.IsCanceledError(err), "%v", err)
				vm, power := s.undone(calls, index, moment != "and it fails")
				b.early(in, s, compute.OperationCancelled, vm, power)
			})
		})
	}
}

func TestLosingTheServerAnywhereIsUndone(t *testing.T) {
	t.Parallel()
	each(t, serverIsLost, func(t *testing.T, s subject, calls []call, index int) {
		b := s.setup(t)
		in := b.accept(s.kind, s.task, s.arguments)
		var after string
		b.fault = at(calls[index], fault{before: func() error {
			b.accept(compute.OpDelete, compute.TaskDeleting, nil)
			after = b.row.snapshot()
			return nil
		}})
		err := b.run(s.kind, in, nil)
		image := s.kind == compute.OpCreateImage || s.kind == compute.OpCreateBackup
		if calls[index].name == record.Begin.Name && !image { // a request waits for the image's id, and learns it
			require.NoError(t, err, "it never began")
		} else {
			require.True(t, record.IsSuperseded(err), "%v", err)
		}
		if s.kind == compute.OpEvacuate { // what the old host has waits for the delete, as a janitor would have it removed
			by := b.row.current
			b.row.current = ""
			b.reapAll()
			b.row.current = by
		}
		b.early(in, s, compute.OperationCancelled, "", 0)
		require.Equal(t, after, b.row.snapshot(), "the server is the other one's")
	})
}

func TestATransientFailureAnywhereIsRetried(t *testing.T) {
	t.Parallel()
	each(t, failsForATime, func(t *testing.T, s subject, calls []call, index int) {
		b := s.setup(t)
		in := b.accept(s.kind, s.task, s.arguments)
		away := func() error { return compute.Errorf(compute.Unavailable, "away") }
		b.fault = func(c call) fault {
			switch {
			case c.name != calls[index].name || c.nth != calls[index].nth || c.attempt > 2:
				return fault{}
			case c.attempt == 1:
				return fault{before: away}
			}
			return fault{after: away}
		}
		require.NoError(t, b.run(s.kind, in, nil))
		b.whole(in, s.kind)
	})
}

// TestTheUndoIsUndeterred lets an operation fail at its very end and troubles
// each call of its undo.
func TestTheUndoIsUndeterred(t *testing.T) {
	t.Parallel()
	undos := map[string][]call{}
	for name, s := range subjects {
		whole, last := failingLate(t, name)
		b := s.setup(t)
		in := b.accept(s.kind, s.task, s.arguments)
		b.fault = at(whole[last], fault{after: fail})
		require.Error(t, b.run(s.kind, in, nil))
		vm, power := s.leftAt(whole, last)
		b.early(in, s, compute.OperationFailed, vm, power)
		undos[name] = b.names()[last+1:]
	}
	numbers := cover(undos)
	for name, undo := range undos {
		s := subjects[name]
		whole, last := failingLate(t, name)
		vm, power := s.leftAt(whole, last)
		for _, c := range undo {
			if numbers[name][c.String()] == 0 && !seed.Whole() {
				continue
			}
			t.Run(name+"/"+c.String(), func(t *testing.T) {
				t.Parallel()
				for trouble, f := range map[string]func(*testsuite.TestWorkflowEnvironment) fault{
					"fails having done nothing":  func(*testsuite.TestWorkflowEnvironment) fault { return fault{before: fail} },
					"fails having done its work": func(*testsuite.TestWorkflowEnvironment) fault { return fault{after: fail} },
					"is cancelled": func(env *testsuite.TestWorkflowEnvironment) fault {
						return fault{before: func() error { env.CancelWorkflow(); return nil }}
					},
				} {
					t.Run(trouble, func(t *testing.T) {
						b := s.setup(t)
						in := b.accept(s.kind, s.task, s.arguments)
						err := b.run(s.kind, in, func(env *testsuite.TestWorkflowEnvironment) {
							first, second := at(whole[last], fault{after: fail}), at(c, f(env))
							b.fault = func(now call) fault {
								if f := first(now); f.after != nil {
									return f
								}
								return second(now)
							}
						})
						require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
						b.early(in, s, compute.OperationFailed, vm, power)
					})
				}
			})
		}
	}
}

// TestTheUndoNeverGivesUp lets every call of the undo fail several times over.
func TestTheUndoNeverGivesUp(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, last := failingLate(t, name)
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			undoing, failures := false, map[string]int{}
			b.fault = func(c call) fault {
				b.mu.Lock()
				defer b.mu.Unlock()
				if c.name == whole[last].name && c.nth == whole[last].nth {
					undoing = true
					return fault{after: fail}
				}
				if key := c.name + c.detail; undoing && failures[key] < 6 {
					failures[key]++
					return fault{before: fail}
				}
				return fault{}
			}
			require.Equal(t, errBroken.Message, durable.FromTemporal(b.run(s.kind, in, nil)).Message)
			b.fault = nil
			vm, power := s.leftAt(whole, last)
			b.early(in, s, compute.OperationFailed, vm, power)
		})
	}
}
