package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// A revert reads the keys of what comes back, and of what is started again if it fails.
func TestRevertKeys(t *testing.T) {
	t.Parallel()
	old := compute.SecretID{UUID: uuid.New()}
	for name, v := range map[string]struct {
		was, is   compute.VMState
		power     compute.PowerState
		olds, its bool
	}{
		"ran, runs":            {compute.VMActive, compute.VMResized, compute.PowerRunning, true, true},
		"ran, was shut down":   {compute.VMActive, compute.VMResized, compute.PowerShutdown, true, false},
		"was off, is off":      {compute.VMStopped, compute.VMResized, compute.PowerShutdown, false, false},
		"was off, was started": {compute.VMStopped, compute.VMResized, compute.PowerRunning, false, true},
	} {
		s, keys := planned(v.is)
		s.PowerState = v.power
		s.Former = &compute.Former{
			Host: *s.Host, VMState: v.was, TPM: s.TPM, Disks: []compute.Disk{s.Disks[0], {Role: compute.SwapDisk, SizeMB: 5, Encrypted: true, Secret: &old}},
		}
		var want []compute.SecretID
		if v.olds {
			want = append(want, keys[0], old, keys[2])
		}
		if v.its && v.olds {
			want = append(want, keys[1])
		} else if v.its {
			want = keys
		}
		require.ElementsMatch(t, want, s.RevertKeys(), name)
	}
}

// A revert needs the host that the server goes back to, also where the server was off: what it was is there alone.
func TestWhatARevertNeeds(t *testing.T) {
	t.Parallel()
	s, _ := planned(compute.VMResized)
	old := compute.HostID{UUID: uuid.New()}
	s.Former = &compute.Former{Host: old, VMState: compute.VMStopped, Disks: s.Disks}
	require.Equal(t, []compute.HostID{*s.Host, old}, s.PlanRevert().Needs)
	s.Former.Host = *s.Host
	require.Equal(t, []compute.HostID{*s.Host}, s.PlanRevert().Needs)
}

// What nobody has afterwards is told before: of an evacuate the disks and the state of the vTPM.
func TestPlansOfWhatIsLost(t *testing.T) {
	t.Parallel()
	s, keys := planned(compute.VMActive)
	lost := func(p compute.MovePlan) (what []string) {
		for _, d := range p.Lost {
			what = append(what, d.What)
		}
		return what
	}
	live := s.PlanLiveMigrate(nil, nil)
	require.False(t, live.Stops)
	require.Equal(t, keys, live.Keys)
	require.Empty(t, lost(live))

	s.Image = compute.Image{ID: compute.ImageID{UUID: uuid.New()}, DiskFormat: compute.ImageQcow2, SizeBytes: 77}
	s.Flavor = compute.Flavor{RootGB: 1}
	gone, err := s.PlanEvacuate("req-1", compute.EvacuateArguments{}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"disk root", "disk swap", "state of the vTPM"}, lost(gone))
	require.Equal(t, keys, gone.Keys)
	require.Equal(t, []compute.HostID{*s.Host}, gone.Not)
	require.Len(t, gone.Data, 1)
	stays, err := s.PlanEvacuate("req-1", compute.EvacuateArguments{Stopped: true}, nil)
	require.NoError(t, err)
	require.Equal(t, keys[:2], stays.Keys, "the vTPM's is for its start")
	require.Equal(t, []string{"disk root", "disk swap"}, lost(first(s.WithNewTPM(true).PlanEvacuate("req-1", compute.EvacuateArguments{}, nil))), "it had no state")

	kept := s
	kept.TPMBackup = &compute.TPMBackup{Of: *s.TPM}
	restored, err := kept.PlanEvacuate("req-1", compute.EvacuateArguments{}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"disk root", "disk swap", "state of the vTPM, since its backup"}, lost(restored))
	require.Len(t, restored.Data, 2)
	shared := restored.InPlace()
	require.Equal(t, []string{"disk root", "disk swap"}, lost(shared))
	require.Len(t, shared.Data, 1)

	require.Equal(t, []string{"state of the vTPM, since its backup"}, lost(restored.WithDisks(kept)), "they stay")
	require.Equal(t, kept.Disks, restored.WithDisks(kept).Server.Disks)
	for asked, seeks := range map[*bool]bool{nil: true, new(bool): false} {
		plan := first(s.PlanEvacuate("req-1", compute.EvacuateArguments{Shared: asked}, nil))
		require.Equal(t, seeks, plan.Seeks)
	}
	volume := s
	volume.Disks = []compute.Disk{{Encrypted: true, Format: compute.FormatLUKSv2}}
	require.False(t, volume.KeepsDisks(compute.EvacuateArguments{}), "a logical volume is its host's")

	gone = restored.WithoutBackup()
	require.Equal(t, []string{"disk root", "disk swap", "state of the vTPM"}, lost(gone))
	require.Len(t, gone.Data, 1)
	require.Nil(t, gone.Backup)
	moved := s.PlanMove(s, nil, false, nil)
	require.Len(t, s.WithNewTPM(true).PlanMove(s, nil, false, nil).Data, len(moved.Data)-1, "it has no state to take along")

	fails := s.PlanOffload([]compute.Thing{{Kind: compute.ThingRunningDomain}}).Fails
	require.Len(t, fails, 4, "it may run, two disks and the state are kept nowhere: %v", fails)
}

func first[T any](t T, _ error) T { return t }
