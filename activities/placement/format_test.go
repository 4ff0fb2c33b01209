package placement_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/compute"
)

// EE-05: servers whose disks are volumes are claimed of the host's volume group, however full its file
// system is, and never more than the group has.
func TestVolumesAreClaimedOfTheGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("grouped", 99, 9999)
	b.Exec("UPDATE hosts SET traits = $2, default_format = 'plain', disk_gb = 1, group_mb = 2048 WHERE id = $1", host,
		[]string{compute.TraitEncryption, compute.TraitEncryptionPlain, compute.TraitEncryptionLUKS})
	of := func(format compute.DiskFormat) compute.Server {
		s := compute.Server{Flavor: compute.Flavor{VCPUs: 1, MemoryMB: 1, RootGB: 1}}
		s.Disks = []compute.Disk{{Role: compute.RootDisk, Encrypted: true, Format: format, SizeMB: 1024}}
		return s
	}
	for i, c := range []struct {
		format compute.DiskFormat
		fits   bool
	}{
		{"luks", true}, {"luks", false}, {"plain", true}, {"", true}, {"", false}, {"plain", false}, {"luks", false},
	} {
		_, err := b.claim(placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: of(c.format)})
		if c.fits {
			require.NoError(t, err, i)
			continue
		}
		require.Equal(t, compute.NoHost, compute.KindOf(err), "%d: %v", i, err)
	}
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM claims WHERE disk_gb = 1 AND group_mb = 0"))
	require.Equal(t, 2, b.CountRows("SELECT count(*) FROM claims WHERE disk_gb = 0 AND group_mb = 1024"))
}

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
