package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestTraitsOf(t *testing.T) {
	t.Parallel()
	on := compute.Encryption{Enabled: true}
	for name, c := range map[string]struct {
		flavor     compute.Flavor
		image      compute.Image
		encryption compute.Encryption
		tpm        *compute.TPM
		want       compute.Traits
	}{
		"none":       {want: traits(nil, nil)},
		"encryption": {encryption: on, want: traits([]string{"COMPUTE_EPHEMERAL_ENCRYPTION"}, nil)},
		"encryption with a format": {encryption: compute.Encryption{Enabled: true, Format: "luksv2", FormatRequested: true},
			want: traits([]string{"COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKSV2"}, nil)},
		"encryption with plain": {encryption: compute.Encryption{Enabled: true, Format: "plain", FormatRequested: true},
			want: traits([]string{"COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_PLAIN"}, nil)},
		"the image's format is no request": {encryption: compute.Encryption{Enabled: true, Format: "luks"},
			want: traits([]string{"COMPUTE_EPHEMERAL_ENCRYPTION"}, nil)},
		"the host must read the image": {encryption: compute.Encryption{Enabled: true, Format: "luks", SourceSecret: &compute.SecretID{}, SourceFormat: "luksv2"},
			want: traits([]string{"COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKSV2"}, nil)},
		"tpm 2.0 crb": {tpm: &compute.TPM{Version: "2.0", Model: "tpm-crb", Security: "user"},
			want: traits([]string{"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_CRB", "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"}, nil)},
		"tpm 1.2 host": {tpm: &compute.TPM{Version: "1.2", Model: "tpm-tis", Security: "host"},
			want: traits([]string{"COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST", "COMPUTE_SECURITY_TPM_TIS"}, nil)},
		"of flavor and image": {flavor: flavor("trait:HW_CPU_X86_AVX2", "required", "trait:CUSTOM_OLD", "forbidden"),
			image: image("trait:CUSTOM_FAST", "required", "trait1:CUSTOM_SLOW", "forbidden"),
			want:  traits([]string{"CUSTOM_FAST", "HW_CPU_X86_AVX2"}, []string{"CUSTOM_OLD", "CUSTOM_SLOW"})},
		"asked twice": {flavor: flavor("trait:COMPUTE_EPHEMERAL_ENCRYPTION", "required"), encryption: on,
			want: traits([]string{"COMPUTE_EPHEMERAL_ENCRYPTION"}, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := compute.TraitsOf(c.flavor, c.image, c.encryption, c.tpm)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestTraitsOfRefuses(t *testing.T) {
	t.Parallel()
	_, err := compute.TraitsOf(flavor("trait:CUSTOM_X", "required"), image("trait:CUSTOM_X", "forbidden"), compute.Encryption{}, nil)
	require.EqualError(t, err, "Trait CUSTOM_X is both required and forbidden by flavor vault and image guest.")
	require.Equal(t, compute.Conflict, compute.KindOf(err))

	_, err = compute.TraitsOf(flavor("trait:COMPUTE_SECURITY_TPM_2_0", "forbidden"), image(), compute.Encryption{},
		&compute.TPM{Version: "2.0", Model: "tpm-tis", Security: "user"})
	require.Equal(t, compute.Conflict, compute.KindOf(err))

	_, err = compute.TraitsOf(flavor("trait:CUSTOM_X", "preferred"), image(), compute.Encryption{}, nil)
	require.EqualError(t, err, "Trait CUSTOM_X is neither required nor forbidden but 'preferred'.")
	require.Equal(t, compute.Invalid, compute.KindOf(err))
}

func traits(required, forbidden []string) compute.Traits {
	return compute.Traits{Required: append([]string{}, required...), Forbidden: append([]string{}, forbidden...)}
}
