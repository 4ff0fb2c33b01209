package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestTPMOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flavor compute.Flavor
		image  compute.Image
		want   *compute.TPM
	}{
		"none":                   {flavor(), image(), nil},
		"a trait makes none":     {flavor("trait:COMPUTE_SECURITY_TPM_2_0", "required"), image(), nil},
		"security makes none":    {flavor("hw:tpm_secret_security", "host"), image(), nil},
		"version 1.2":            {flavor("hw:tpm_version", "1.2"), image(), &compute.TPM{Version: "1.2", Model: "tpm-tis", Security: "user"}},
		"version 2.0":            {flavor("hw:tpm_version", "2.0"), image(), &compute.TPM{Version: "2.0", Model: "tpm-tis", Security: "user"}},
		"crb":                    {flavor("hw:tpm_version", "2.0", "hw:tpm_model", "tpm-crb"), image(), &compute.TPM{Version: "2.0", Model: "tpm-crb", Security: "user"}},
		"CRB":                    {flavor("hw:tpm_version", "2.0", "hw:tpm_model", "CRB"), image(), &compute.TPM{Version: "2.0", Model: "tpm-crb", Security: "user"}},
		"tis with 1.2":           {flavor("hw:tpm_version", "1.2", "hw:tpm_model", "Tis"), image(), &compute.TPM{Version: "1.2", Model: "tpm-tis", Security: "user"}},
		"image alone":            {flavor(), image("hw_tpm_version", "2.0", "hw_tpm_model", "TPM-CRB"), &compute.TPM{Version: "2.0", Model: "tpm-crb", Security: "user"}},
		"both agree":             {flavor("hw:tpm_version", "2.0", "hw:tpm_model", "CRB"), image("hw_tpm_version", "2.0", "hw_tpm_model", "tpm-crb"), &compute.TPM{Version: "2.0", Model: "tpm-crb", Security: "user"}},
		"one has only a version": {flavor("hw:tpm_version", "2.0"), image("hw_tpm_version", "2.0", "hw_tpm_model", "crb"), &compute.TPM{Version: "2.0", Model: "tpm-crb", Security: "user"}},
		"split between the two":  {flavor("hw:tpm_model", "crb"), image("hw_tpm_version", "2.0"), &compute.TPM{Version: "2.0", Model: "tpm-crb", Security: "user"}},
		"security host":          {flavor("hw:tpm_version", "2.0", "hw:tpm_secret_security", "host"), image(), &compute.TPM{Version: "2.0", Model: "tpm-tis", Security: "host"}},
		"security deployment":    {flavor("hw:tpm_version", "2.0", "hw:tpm_secret_security", "deployment"), image(), &compute.TPM{Version: "2.0", Model: "tpm-tis", Security: "deployment"}},
		"security is flavor only": {flavor("hw:tpm_version", "2.0"), image("hw_tpm_secret_security", "host"),
			&compute.TPM{Version: "2.0", Model: "tpm-tis", Security: "user"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := compute.TPMOf(c.flavor, c.image)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestTPMOfRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flavor compute.Flavor
		image  compute.Image
		kind   compute.Kind
		text   string
	}{
		"crb with 1.2":          {flavor("hw:tpm_version", "1.2", "hw:tpm_model", "tpm-crb"), image(), compute.Invalid, "TPM model CRB is only valid with TPM version 2.0."},
		"crb with 1.2, split":   {flavor("hw:tpm_version", "1.2"), image("hw_tpm_model", "CRB"), compute.Invalid, "TPM model CRB is only valid with TPM version 2.0."},
		"model without version": {flavor("hw:tpm_model", "tpm-tis"), image(), compute.Invalid, "TPM model tpm-tis is requested without a TPM version."},
		"unknown version":       {flavor("hw:tpm_version", "3.0"), image(), compute.Invalid, "Invalid TPM version '3.0'. Allowed values: 1.2, 2.0."},
		"unknown model":         {flavor("hw:tpm_version", "2.0"), image("hw_tpm_model", "spapr"), compute.Invalid, "Invalid TPM model 'spapr'. Allowed values: tpm-tis, tpm-crb."},
		"unknown security":      {flavor("hw:tpm_version", "2.0", "hw:tpm_secret_security", "nobody"), image(), compute.Invalid, "Invalid secret security 'nobody'."},
		"versions differ": {flavor("hw:tpm_version", "2.0"), image("hw_tpm_version", "1.2"), compute.Conflict,
			"Flavor vault has hw:tpm_version extra spec explicitly set to 2.0, conflicting with image guest which has hw_tpm_version explicitly set to 1.2."},
		"models differ": {flavor("hw:tpm_version", "2.0", "hw:tpm_model", "TIS"), image("hw_tpm_model", "tpm-crb"), compute.Conflict,
			"Flavor vault has hw:tpm_model extra spec explicitly set to TIS, conflicting with image guest which has hw_tpm_model explicitly set to tpm-crb."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tpm, err := compute.TPMOf(c.flavor, c.image)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.kind, compute.KindOf(err))
			require.Nil(t, tpm)
		})
	}
}
