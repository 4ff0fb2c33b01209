package placement_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/compute"
)

// EE-03, EE-41: a claim says in which format its host makes the disks for which nobody asks for
// one: its default, and luks where its worker is of a release that says none.
func TestEE03AClaimTellsTheHostsDefaultFormat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	older, newer := b.Host("older", 8, 8192), b.Host("newer", 8, 8192)
	b.Exec("UPDATE hosts SET traits = $2 WHERE id = $1", older, []string{compute.TraitEncryption, compute.TraitEncryptionLUKS})
	b.Exec("UPDATE hosts SET traits = $2, default_format = 'luksv2' WHERE id = $1", newer, []string{compute.TraitEncryption, compute.TraitEncryptionLUKSv2})
	of := func(format compute.DiskFormat) compute.Server {
		s := compute.Server{Flavor: compute.Flavor{VCPUs: 1, MemoryMB: 1}}
		s.Disks = []compute.Disk{{Role: compute.RootDisk, Encrypted: true, Format: format}}
		return s
	}
	for _, c := range []struct {
		host   compute.HostID
		format compute.DiskFormat
	}{{older, compute.FormatLUKS}, {newer, compute.FormatLUKSv2}} {
		in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: of(""), Only: &c.host}
		for range 2 { // an attempt that got no answer, and its successor
			got, err := b.claim(in)
			require.NoError(t, err)
			require.Equal(t, c.host, got.Host)
			require.Equal(t, c.format, got.Format)
		}
		// Once it is decided, the server is only at home where that format is (EE-42).
		in = placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: of(c.format)}
		got, err := b.claim(in)
		require.NoError(t, err)
		require.Equal(t, c.host, got.Host)
	}
	in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: of(compute.FormatPlain)}
	_, err := b.claim(in)
	require.Equal(t, compute.NoHost, compute.KindOf(err))

	b.Exec("UPDATE hosts SET default_format = 'plain' WHERE id = $1", newer)
	in = placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: of(""), Only: &newer}
	_, err = b.claim(in)
	require.Equal(t, compute.NoHost, compute.KindOf(err), "it cannot make its own default")
}
