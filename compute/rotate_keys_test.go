package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestDisksToRotate(t *testing.T) {
	t.Parallel()
	secret := &compute.SecretID{UUID: uuid.New()}
	root := compute.Disk{Role: compute.RootDisk, Encrypted: true, Secret: secret, Format: compute.FormatLUKS}
	first := compute.Disk{Role: compute.EphemeralDisk, Encrypted: true, Secret: secret, Format: compute.FormatLUKS}
	second := first
	second.Index = 1
	bare := compute.Disk{Role: compute.SwapDisk}
	legacy := compute.Disk{Role: compute.SwapDisk, Encrypted: true, Secret: secret, Format: compute.FormatPlain}
	for name, v := range map[string]struct {
		disks  []compute.Disk
		labels []string
		want   []compute.Disk
		kind   compute.Kind
	}{
		"all":               {[]compute.Disk{root, first, second}, nil, []compute.Disk{root, first, second}, ""},
		"all but the plain": {[]compute.Disk{root, bare}, nil, []compute.Disk{root}, ""},
		"some":              {[]compute.Disk{root, first, second}, []string{"ephemeral1", "root"}, []compute.Disk{second, root}, ""},
		"unknown":           {[]compute.Disk{root}, []string{"vda"}, nil, compute.Invalid},
		"twice":             {[]compute.Disk{root}, []string{"root", "root"}, nil, compute.Invalid},
		"plain by name":     {[]compute.Disk{root, bare}, []string{"swap"}, nil, compute.Conflict},
		"nothing encrypted": {[]compute.Disk{bare}, nil, nil, compute.Conflict},
		"no disk":           {nil, nil, nil, compute.Conflict},
		"dm-crypt":          {[]compute.Disk{root, legacy}, nil, nil, compute.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compute.Server{Disks: v.disks}
			got, err := s.DisksToRotate(v.labels)
			require.Equal(t, v.kind, compute.KindOf(err), "%v", err)
			require.Equal(t, v.want, got)
			require.Equal(t, v.disks, s.Disks, "the server's own list stays")
		})
	}
}

// Only who can make a secret of the owner's may: his project, or whoever acts with
// what the owner delegated or with strongroom's own login.
func TestCheckRotator(t *testing.T) {
	t.Parallel()
	owner, admin := compute.Credential{ProjectID: "p"}, compute.Credential{ProjectID: "admins"}
	for security, allowed := range map[string]bool{"": false, "user": false, "host": true, "deployment": true} {
		s := compute.Server{ProjectID: "p", Flavor: compute.Flavor{ExtraSpecs: map[string]string{
			"hw:ephemeral_encryption_secret_security": security,
		}}}
		require.NoError(t, s.CheckRotator(owner), security)
		require.Equal(t, allowed, s.CheckRotator(admin) == nil, security)
		if !allowed {
			require.True(t, compute.Is(s.CheckRotator(admin), compute.Forbidden))
		}
	}
}
