package firmware_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/firmware"
	"strongroom/compute"
)

func uefi(secure compute.SecureBoot) compute.Firmware {
	return compute.Firmware{UEFI: true, SecureBoot: secure}
}

// describe writes a description, and the files that it names.
func describe(t *testing.T, dir, name string, machines, features []string) (code string) {
	t.Helper()
	code, vars := filepath.Join(dir, name+".code.fd"), filepath.Join(dir, name+".vars.fd")
	for _, f := range []string{code, vars} {
		require.NoError(t, os.WriteFile(f, []byte(f), 0o600))
	}
	text, err := json.Marshal(map[string]any{
		"interface-types": []string{"uefi"},
		"mapping": map[string]any{
			"device": "flash", "executable": map[string]string{"filename": code, "format": "raw"}, "nvram-template": map[string]string{"filename": vars, "format": "raw"},
		},
		"targets":  []map[string]any{{"architecture": "x86_64", "machines": machines}},
		"features": features,
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".json"), text, 0o600))
	return code
}

var (
	both   = []string{"pc-i440fx-*", "pc-q35-*"}
	q35    = []string{"pc-q35-*"}
	secure = []string{"acpi-s3", "enrolled-keys", "requires-smm", "secure-boot"}
)

func TestTheBuildThatFits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := firmware.Host{Dir: dir}
	for _, policy := range []compute.SecureBoot{compute.SecureBootDisabled, compute.SecureBootOptional, compute.SecureBootRequired} {
		_, err := h.Of(uefi(policy), "")
		require.Equal(t, compute.NoHost, compute.KindOf(err))
	}
	plain := describe(t, dir, "60-plain", both, []string{"acpi-s3"})
	got, err := h.Of(uefi(compute.SecureBootOptional), "")
	require.NoError(t, err)
	vars := filepath.Join(dir, "60-plain.vars.fd")
	require.Equal(t, firmware.Build{Code: plain, Vars: vars, Bytes: int64(len(vars))}, got)
	_, err = h.Of(uefi(compute.SecureBootRequired), "")
	require.ErrorContains(t, err, "this host has no UEFI with Secure Boot for machine type q35")

	describe(t, dir, "30-no-keys", q35, []string{"requires-smm", "secure-boot"})
	describe(t, dir, "20-open", q35, []string{"enrolled-keys", "secure-boot"})
	require.NoError(t, os.Symlink(os.DevNull, filepath.Join(dir, "10-switched-off.json")))
	_, err = h.Of(uefi(compute.SecureBootRequired), "")
	require.Error(t, err, "without keys anything is started, and keys that guests can write to are none")
	keyed := describe(t, dir, "40-secure", q35, secure)
	for policy, want := range map[compute.SecureBoot]string{
		compute.SecureBootDisabled: plain, compute.SecureBootOptional: keyed, compute.SecureBootRequired: keyed,
	} {
		got, err := h.Of(uefi(policy), "")
		require.NoError(t, err)
		require.Equal(t, want, got.Code)
		require.Equal(t, want == keyed, got.Secure)
	}
	got, err = h.Of(uefi(compute.SecureBootOptional), "pc")
	require.NoError(t, err)
	require.Equal(t, plain, got.Code, "the other machine type has no Secure Boot")
	for machine, code := range map[string]string{"pc-q35-7.2": keyed, "pc-i440fx-7.2": plain} {
		got, err = h.Of(uefi(compute.SecureBootOptional), machine)
		require.NoError(t, err)
		require.Equal(t, code, got.Code, machine)
	}
	_, err = h.Of(uefi(compute.SecureBootOptional), "microvm")
	require.Error(t, err)
	_, err = firmware.Host{Dir: dir, Machine: "pc"}.Of(uefi(compute.SecureBootRequired), "")
	require.Error(t, err)
	require.NoError(t, os.Remove(keyed))
	_, err = h.Of(uefi(compute.SecureBootRequired), "")
	require.Error(t, err, "a description of what is not there")
}

// Variables are read by a build whose template has their size alone; and nothing is found for who does not say what
// he wants, which may be more than what would be found.
func TestTheBuildThatReadsTheVariables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := firmware.Host{Dir: dir}
	sized := func(name string, features []string, bytes int) string {
		code := describe(t, dir, name, q35, features)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".vars.fd"), make([]byte, bytes), 0o600))
		return code
	}
	keyed, plain := sized("10-secure-4m", secure, 528), sized("20-plain-4m", nil, 528)
	keyed2, plain2 := sized("30-secure-2m", secure, 128), sized("40-plain-2m", nil, 128)
	sized("05-empty", secure, 0)
	plain1 := sized("50-plain-1m", nil, 64)
	for _, c := range []struct {
		policy compute.SecureBoot
		bytes  int64
		code   string
	}{
		{compute.SecureBootRequired, 0, keyed}, {compute.SecureBootRequired, 528, keyed}, {compute.SecureBootRequired, 128, keyed2},
		{compute.SecureBootDisabled, 0, plain}, {compute.SecureBootDisabled, 128, plain2},
		{compute.SecureBootOptional, 0, keyed}, {compute.SecureBootOptional, 128, keyed2}, {compute.SecureBootOptional, 64, plain1},
	} {
		got, err := h.For(uefi(c.policy), "", c.bytes)
		require.NoError(t, err)
		require.Equal(t, c.code, got.Code, "%v", c)
	}
	for _, policy := range []compute.SecureBoot{compute.SecureBootDisabled, compute.SecureBootOptional, compute.SecureBootRequired} {
		_, err := h.For(uefi(policy), "", 100)
		require.Equal(t, compute.Conflict, compute.KindOf(err))
		require.ErrorContains(t, err, "its UEFI variables have 100 bytes, and those of this host's firmware ")
		_, err = h.For(uefi(policy), "pc", 100)
		require.Equal(t, compute.NoHost, compute.KindOf(err))
	}
	_, err := h.For(uefi(compute.SecureBootRequired), "", 64)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "there is one without Secure Boot alone")
	for _, unclear := range []compute.Firmware{{}, {SecureBoot: compute.SecureBootRequired}, {UEFI: true}, {UEFI: true, SecureBoot: "yes"}} {
		_, err := h.For(unclear, "", 0)
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", unclear)
	}
}

// What Debian's package has is found.
func TestDebiansOVMF(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(firmware.Folder); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs the package ovmf")
	}
	for _, policy := range []compute.SecureBoot{compute.SecureBootDisabled, compute.SecureBootRequired} {
		got, err := firmware.Host{}.Of(uefi(policy), "")
		require.NoError(t, err)
		require.FileExists(t, got.Code)
		require.FileExists(t, got.Vars)
		require.Equal(t, policy == compute.SecureBootRequired, got.Secure)
	}
}
