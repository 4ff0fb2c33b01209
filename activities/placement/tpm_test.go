package placement_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/compute"
)

// TPM-39: a host that has the state of the server's vTPM, on the storage of a host that is not asked for it, comes
// before those with more room, and these come before none.
func TestHostsThatHaveTheTPMComeFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost, small, large := b.Host("lost", 8, 1<<20), b.Host("small", 8, 1<<14), b.Host("large", 8, 1<<20)
	b.Exec("UPDATE hosts SET tpm_storage = CASE name WHEN 'large' THEN 'another' ELSE 'one' END, forced_down = name = 'lost'")
	claim := func(vcpus int, of *compute.HostID) compute.HostID {
		got, err := b.claim(placement.ClaimInput{OperationInput: b.server(compute.OpEvacuate), Plan: plan(vcpus), TPMOf: of})
		require.NoError(t, err)
		return got.Host
	}
	require.Equal(t, large, claim(1, nil))
	require.Equal(t, small, claim(5, &lost))
	require.Equal(t, large, claim(4, &lost), "the other one is full")
	b.Exec("UPDATE hosts SET tpm_storage = '' WHERE name = 'lost'")
	require.Equal(t, large, claim(1, &lost), "it shares with none")
}

// TPM-39: hosts share the storage of TPM states that say the same id. One that has said none shares
// it with nobody.
func TestTPMPeers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, other := b.Host("a", 1, 1), b.Host("b", 1, 1)
	b.Host("c", 1, 1)
	silent := b.Host("d", 1, 1)
	b.Exec("UPDATE hosts SET tpm_storage = CASE name WHEN 'c' THEN 'another' WHEN 'd' THEN '' ELSE 'one' END")
	for of, want := range map[compute.HostID][]compute.HostID{one: {other}, other: {one}, silent: {}} {
		got, err := b.TPMPeers(b.Ctx, of)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
