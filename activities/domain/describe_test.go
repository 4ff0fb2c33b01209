package domain_test

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	got, err := h.Describe(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, "QEMU", got.HypervisorType)
	require.Greater(t, got.HypervisorVersion, 5_000_000)
	require.Equal(t, runtime.NumCPU(), got.Capacity.VCPUs)
	require.Greater(t, got.Capacity.MemoryMB, 512)
	require.Positive(t, got.Capacity.DiskGB)
	require.LessOrEqual(t, got.DiskFreeGB, got.Capacity.DiskGB)
	require.Zero(t, got.Running)
	require.Equal(t, "x86_64", got.CPU.Arch)
	require.Positive(t, got.CPU.Topology.Cells)
	require.Subset(t, got.Traits, compute.MachineTraits([]string{"pc-q35-7.2", "pc-i440fx-7.2"}))
	require.Equal(t, []string{
		compute.TraitEncryption, compute.TraitEncryptionLUKS, compute.TraitUEFI, compute.TraitTPM12, compute.TraitTPM20,
		compute.TraitTPMCRB, compute.TraitTPMDeployment, compute.TraitTPMHost, compute.TraitTPMUser, compute.TraitTPMTIS, compute.TraitSecureBoot, compute.TraitHardware,
	}, withoutMachines(got.Traits))
	require.Empty(t, got.NoTPM)
	h.FirmwareDir = t.TempDir() // where no firmware is described
	off, err := h.Describe(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, []string{compute.TraitEncryption, compute.TraitEncryptionLUKS, compute.TraitHardware}, withoutMachines(off.Traits), "TPM-01")
	require.Equal(t, "host.swtpm_enabled is false", off.NoTPM)
}

// withoutMachines are a host's traits that are not about its QEMU's machine types, nor about its pages.
func withoutMachines(traits []string) []string {
	return slices.DeleteFunc(slices.Clone(traits), func(t string) bool {
		return strings.HasPrefix(t, "CUSTOM_STRONGROOM_MACHINE_") || strings.HasPrefix(t, compute.HugePagesTrait(0))
	})
}

func TestChooseVirtType(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	for configured, want := range map[string]string{"kvm": "kvm", "qemu": "qemu"} {
		got, err := h.Client.ChooseVirtType(t.Context(), configured, h.RunDir)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := h.Client.ChooseVirtType(t.Context(), "xen", h.RunDir)
	require.Error(t, err)
	runs, err := h.Client.Runs(t.Context(), "qemu", h.RunDir)
	require.NoError(t, err)
	require.True(t, runs, "the probe finds no fault with a CPU that has none")
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	chosen, err := h.Client.ChooseVirtType(ctx, "", h.RunDir)
	require.NoError(t, err)
	require.Contains(t, []string{"kvm", "qemu"}, chosen)
	t.Logf("chose %s after %s", chosen, time.Since(begin))
	left, err := os.ReadDir(h.RunDir)
	require.NoError(t, err)
	require.Empty(t, left)

	// What was chosen must carry a real guest.
	cfg := h.Config
	cfg.VirtType = chosen
	a, err := domain.New(cfg)
	require.NoError(t, err)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	_, err = a.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	h.hear(t, s, "TG ready", 0)
}
