package placement_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

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
