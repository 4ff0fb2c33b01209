package main

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// The default format of a host is what its configuration says, luks if that says nothing, and
// a host that cannot make it does not start (EE-03).
func TestEE03AHostHasADefaultFormat(t *testing.T) {
	t.Parallel()
	all := []string{compute.TraitEncryption, compute.TraitEncryptionLUKS, compute.TraitEncryptionLUKSv2, compute.TraitEncryptionPlain}
	for text, c := range map[string]struct {
		traits []string
		want   compute.DiskFormat
		fails  string
	}{
		"{}":                          {all[:2], compute.FormatLUKS, ""},
		"{default_format: luksv2}":    {all, compute.FormatLUKSv2, ""},
		"{default_format: PLAIN}":     {all, compute.FormatPlain, ""},
		"{default_format: luks}":      {all[2:], "", "is luks, which this host cannot make: it needs a qemu-img with LUKS"},
		"{default_format: plain}":     {all[:2], "", "is plain, which this host cannot make: it needs host.volume_group"},
		"{default_format: 'luksv2' }": {all[:2], "", "is luksv2, which this host cannot make: it needs host.volume_group"},
		"{default_format: rot13}":     {all, "", "Unknown encryption format 'rot13'"},
		"{default_format: ''}":        {all, "", "Unknown encryption format ''"},
	} {
		path := t.TempDir() + "/strongroom.yaml"
		require.NoError(t, os.WriteFile(path, []byte("host: {ephemeral_storage_encryption: "+text+"}\n"), 0o600))
		cfg, err := loadConfig(path)
		require.NoError(t, err, text)
		got, err := cfg.Host.Encryption.format(t.Context(), func(context.Context) ([]string, error) { return c.traits, nil })
		require.Equal(t, c.want, got, text)
		if c.fails == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, "host.ephemeral_storage_encryption.default_format", text)
		require.ErrorContains(t, err, c.fails, text)
	}
}
