package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// planned is a server with encrypted disks and a vTPM, on a host.
func planned(vm compute.VMState) (s compute.Server, keys []compute.SecretID) {
	for range 3 {
		keys = append(keys, compute.SecretID{UUID: uuid.New()})
	}
	host := compute.HostID{UUID: uuid.New()}
	s = compute.Server{
		ID: compute.ServerID{UUID: uuid.New()}, VMState: vm, Host: &host, TPM: &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Secret: &keys[2]},
		Disks: []compute.Disk{
			{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.RootDisk, SizeMB: 1024, Encrypted: true, Secret: &keys[0]},
			{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.SwapDisk, SizeMB: 64, Encrypted: true, Secret: &keys[1]},
		},
	}
	return s, keys
}

// A running server needs all of its keys to move, one that is off those of disks that change.
func TestMoveKeys(t *testing.T) {
	t.Parallel()
	runs, keys := planned(compute.VMActive)
	require.Equal(t, keys, runs.MoveKeys(runs))
	off, keys := planned(compute.VMStopped)
	require.Empty(t, off.MoveKeys(off))
	will := off
	will.Disks = append([]compute.Disk{}, off.Disks...)
	will.Disks[0].SizeMB = 2048
	require.Equal(t, keys[:1], off.MoveKeys(will), "it grows")
	will.Disks[0].SizeMB, will.Disks[1].SizeMB = 1024, 128
	require.Equal(t, keys[1:2], off.MoveKeys(will), "swap of another size is made anew")
	require.Nil(t, off.DiskFor(will.Disks[1]))
}

// A server goes neither to its own host nor to one that has something of it.
func TestOccupied(t *testing.T) {
	t.Parallel()
	s, _ := planned(compute.VMActive)
	other, own := compute.HostID{UUID: uuid.New()}, *s.Host
	has := []compute.Thing{{Place: own.String()}, {Place: other.String()}, {Place: other.String()}, {Place: compute.PlaceKeyManager}}
	require.Equal(t, []compute.HostID{own, other}, s.Occupied(has, false))
	require.Equal(t, []compute.HostID{other}, s.Occupied(has, true))
	s.Host = nil
	require.Equal(t, []compute.HostID{own, other}, s.Occupied(has, true))
}

// What travels is told with its bytes, exactly where they are known.
func TestMovePlans(t *testing.T) {
	t.Parallel()
	s, keys := planned(compute.VMActive)
	sum := func(p compute.MovePlan) (what []string, bytes int64, exact bool) {
		exact = true
		for _, d := range p.Data {
			what = append(what, d.What)
			if d.Bytes != nil {
				bytes += *d.Bytes
				exact = exact && d.Exact
			}
		}
		return what, bytes, exact
	}
	move := s.PlanMove(s, nil, false, nil)
	what, bytes, exact := sum(move)
	require.Equal(t, []string{"disk root", "disk swap", "state of the vTPM"}, what)
	require.Equal(t, int64(1088)<<20, bytes)
	require.False(t, exact)
	require.True(t, move.Stops)
	require.True(t, move.Places)

	shelve := s.PlanShelve()
	require.Equal(t, keys[:2], shelve.Keys, "the vTPM's state stays encrypted")
	require.False(t, shelve.Places)
	for i := range s.Disks {
		s.Disks[i].Shelved = &compute.ShelvedDisk{SizeBytes: 10}
	}
	start, err := s.PlanUnshelve("req-1", compute.UnshelveArguments{})
	require.NoError(t, err)
	require.Empty(t, start.Data, "it is on its host")
	s.VMState, s.Host = compute.VMShelvedOffloaded, nil
	back, err := s.PlanUnshelve("req-1", compute.UnshelveArguments{})
	require.NoError(t, err)
	_, bytes, exact = sum(back)
	require.Equal(t, int64(20), bytes)
	require.True(t, exact)
	require.Equal(t, keys, back.Keys)
	s.Disks[1].Shelved = nil
	_, err = s.PlanUnshelve("req-1", compute.UnshelveArguments{})
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
}
