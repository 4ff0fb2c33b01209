package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestCheckExtraSpec(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, value, stored string }{
		{"hw:tpm_version", "1.2", "1.2"},
		{"hw:tpm_version", "2.0", "2.0"},
		{"hw:tpm_model", "tpm-crb", "tpm-crb"},
		{"hw:tpm_model", "CRB", "tpm-crb"},
		{"hw:tpm_model", "tis", "tpm-tis"},
		{"hw:tpm_secret_security", "deployment", "deployment"},
		{"hw:ephemeral_encryption", "Yes", "Yes"},
		{"hw:ephemeral_encryption_format", "luks", "luks"},
		{"hw:ephemeral_encryption_format", "legacy_dmcrypt_plain", "plain"},
		{"hw:mem_page_size", "large", "large"},
		{"hw:mem_page_size", "2MiB", "2MiB"},
		{"trait:HW_CPU_X86_AVX2", "required", "required"},
		{"trait_1:CUSTOM_GOLD", "forbidden", "forbidden"},
		{"quota:cpu_shares", "anything", "anything"},
		{"nonsense", "anything", "anything"},
	} {
		stored, err := compute.CheckExtraSpec(c.key, c.value)
		require.NoError(t, err, "%s=%s", c.key, c.value)
		require.Equal(t, c.stored, stored)
	}
}

func TestCheckExtraSpecRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, value, text string }{
		{"hw:tpm_version", "3.0", "Validation failed; '3.0' is not one of: 1.2, 2.0."},
		{"hw:tpm_version", " 2.0 x", "Validation failed; ' 2.0 x' is not one of: 1.2, 2.0."},
		{"hw:tpm_model", "spapr", "Validation failed; 'spapr' is not one of: tpm-tis, tpm-crb."},
		{"hw:tpm_secret_security", "all", "Validation failed; 'all' is not one of: user, host, deployment."},
		{"hw:ephemeral_encryption", "maybe", "Validation failed; 'maybe' is not a valid boolean-like value."},
		{"hw:ephemeral_encryption_format", "rot13", "Validation failed; 'rot13' is not one of: plain, luks, luksv2."},
		{"hw:mem_page_size", "huge", `Validation failed; 'huge' is not of the format '(large|small|any|\d+([kKMGT]i?)?(b|bit|B)?)'.`},
		{"hw:mem_page_size", "2MB\n", "Validation failed; '2MB\n' is not of the format '(large|small|any|\\d+([kKMGT]i?)?(b|bit|B)?)'."},
		{"trait:CUSTOM_GOLD", "preferred", "Validation failed; 'preferred' is not one of: required, forbidden."},
		{"trait:lower", "required", "Validation failed; extra spec 'trait:lower' does not appear to be a valid extra spec."},
		{"hw:foo", "1", "Validation failed; extra spec 'hw:foo' does not appear to be a valid extra spec."},
	} {
		_, err := compute.CheckExtraSpec(c.key, c.value)
		require.EqualError(t, err, c.text)
		require.Equal(t, compute.Invalid, compute.KindOf(err))
	}
}
