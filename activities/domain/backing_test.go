package domain_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// M4: a disk whose header names another file, as a guest can write it that broke into its
// QEMU, does not give the guest that file at the next start.
func TestM4NoDiskLeansOnWhatItsHeaderNames(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	s.Disks = append(s.Disks, compute.Disk{
		ID: compute.DiskID{UUID: uuid.New()}, Role: compute.EphemeralDisk, DeviceName: "/dev/vdb", Bus: "virtio", SizeMB: 16, BootIndex: -1,
	})
	h.disksOf(t, s)
	foreign := filepath.Join(h.InstancesDir, "disk-of-another-tenant")
	require.NoError(t, os.WriteFile(foreign, make([]byte, 1<<20), 0o644))
	own := filepath.Join(h.InstancesDir, s.ID.String(), s.Disks[1].Name())
	out, err := exec.CommandContext(t.Context(), "qemu-img", "rebase", "-u", "-b", foreign, "-F", "raw", own).CombinedOutput()
	require.NoError(t, err, "%s", out)

	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	var nodes []struct {
		File string `json:"file"`
	}
	h.monitor(t, s, `{"execute": "query-named-block-nodes"}`, &nodes)
	var files []string
	for _, n := range nodes {
		files = append(files, n.File)
	}
	require.Contains(t, files, own)
	require.NotContains(t, files, foreign)
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
}

// M4: nor does a disk whose header says that its data are in another file: its server is not
// started, and is once the disk is as it was.
func TestM4NoDiskHasItsDataElsewhere(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	s.Disks = append(s.Disks, compute.Disk{
		ID: compute.DiskID{UUID: uuid.New()}, Role: compute.EphemeralDisk, DeviceName: "/dev/vdb", Bus: "virtio", SizeMB: 16, BootIndex: -1,
	})
	h.disksOf(t, s)
	own := filepath.Join(h.InstancesDir, s.ID.String(), s.Disks[1].Name())
	was, err := os.ReadFile(own)
	require.NoError(t, err)
	foreign := filepath.Join(h.InstancesDir, "data-of-another-tenant")
	out, err := exec.CommandContext(t.Context(), "qemu-img", "create", "-f", "qcow2", "-o", "data_file="+foreign+",data_file_raw=on", own, "16M").CombinedOutput()
	require.NoError(t, err, "%s", out)

	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.True(t, compute.Is(err, compute.Corrupt), "%v", err)
	require.ErrorContains(t, err, s.Disks[1].ID.String())
	require.NotContains(t, err.Error(), h.InstancesDir)

	require.NoError(t, os.WriteFile(own, was, 0o600))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
}
