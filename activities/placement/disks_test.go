package placement_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/compute"
)

// Hosts that share the storage of the disks of a server, whose host is not asked, come before all others and keep the disks. Where they are not to be
// kept none of them takes it: what is made there and what its host removes would be the same files.
func TestHostsThatHaveTheDisksComeFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost, small, large := b.Host("lost", 8, 1<<20), b.Host("small", 8, 1<<14), b.Host("large", 8, 1<<20)
	b.Exec("UPDATE hosts SET disk_storage = CASE name WHEN 'large' THEN 'another' ELSE 'one' END, forced_down = name = 'lost'")
	claim := func(in placement.ClaimInput) (placement.ClaimResult, error) {
		in.OperationInput, in.Plan = b.server(compute.OpEvacuate), plan(1)
		b.Exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
			VALUES (gen_random_uuid(), 'disk_file', $2, $1 || '/disk', 'server', $1::uuid, 'req-before', gen_random_uuid(), 'p', 'u', 'present')`, in.Server.String(), lost.String())
		return b.claim(in)
	}
	got, err := claim(placement.ClaimInput{DisksOf: &lost})
	require.NoError(t, err)
	require.Equal(t, []any{small, true}, []any{got.Host, got.Disks})
	got, err = claim(placement.ClaimInput{})
	require.NoError(t, err)
	require.Equal(t, []any{large, false}, []any{got.Host, got.Disks})
	_, err = claim(placement.ClaimInput{Only: &small})
	require.ErrorContains(t, err, compute.SharedDiskStorage)
	got, err = claim(placement.ClaimInput{DisksOf: &lost, Only: &large})
	require.NoError(t, err)
	require.False(t, got.Disks)
	_, err = claim(placement.ClaimInput{DisksOf: &lost, OnShared: true, Only: &large})
	require.ErrorContains(t, err, compute.InvalidShared)
	// One that has them and cannot take the server is not passed over, nor one whose host may come back to them.
	left := []compute.HostID{lost}
	for why, change := range map[string][2]string{
		"host small has the server's disks, on storage that it shares with the host that the server leaves, and cannot take the server: disabled": {"disabled = name = 'small'", "disabled = false"},
		"host lost is not forced down": {"forced_down = false", "forced_down = name = 'lost'"},
	} {
		b.Exec("UPDATE hosts SET " + change[0])
		_, err = claim(placement.ClaimInput{DisksOf: &lost, Not: left})
		require.True(t, compute.Is(err, compute.Conflict), "%v", err)
		require.ErrorContains(t, err, why)
		got, err = claim(placement.ClaimInput{DisksOf: &lost, Not: left, Only: &large})
		require.NoError(t, err)
		require.False(t, got.Disks)
		b.Exec("UPDATE hosts SET " + change[1])
	}
	b.Exec("UPDATE hosts SET last_seen = now() - interval '2 minutes' WHERE name = 'small'")
	_, err = claim(placement.ClaimInput{DisksOf: &lost, Not: []compute.HostID{lost}})
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	require.ErrorContains(t, err, "host small has the server's disks")
}

// S1: a new server whose disks are larger than what its flavor counts for gets no host.
func TestS1DisksThatNobodyCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Host("h1", 8, 8192)
	in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
	in.Plan.VMState = compute.VMBuilding
	in.Plan.Flavor.EphemeralGB, in.Plan.Flavor.SwapMB = 2, 64
	disks := func(sizes ...int64) {
		in.Plan.Disks = nil
		for i, mb := range sizes {
			in.Plan.Disks = append(in.Plan.Disks, compute.Disk{Role: []compute.DiskRole{compute.RootDisk, compute.EphemeralDisk, compute.EphemeralDisk, compute.SwapDisk}[i], SizeMB: mb})
		}
	}
	for _, sizes := range [][]int64{{1024, 1024, 100 << 20, 64}, {1024, -1 << 40, 100 << 20, 64}, {100 << 20}} {
		disks(sizes...)
		_, err := b.claim(in)
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v: %v", sizes, err)
		require.Zero(t, b.claims(in.OperationInput))
	}
	disks(1024, 1024, 1024, 64)
	_, err := b.claim(in)
	require.NoError(t, err)
}
