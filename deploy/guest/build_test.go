package guest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest"
)

func TestBuildBootsByItself(t *testing.T) {
	t.Parallel()
	needRoot(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	image := filepath.Join(t.TempDir(), "guest.qcow2")
	require.NoError(t, guest.Build(ctx, image, guest.Options{}))

	out, err := exec.CommandContext(ctx, "qemu-img", "info", "--output=json", image).Output()
	require.NoError(t, err)
	var info struct {
		Format      string `json:"format"`
		VirtualSize int64  `json:"virtual-size"`
		ActualSize  int64  `json:"actual-size"`
	}
	require.NoError(t, json.Unmarshal(out, &info))
	require.Equal(t, "qcow2", info.Format)
	require.EqualValues(t, 40<<20, info.VirtualSize)
	require.Less(t, info.ActualSize, int64(20<<20))

	for boot := 1; boot <= 2; boot++ {
		lines := talk(ctx, t, image, "ping hello", "write note kept", "cat note", "cat absent", "poweroff")
		require.Contains(t, lines, "TG rootdisk boots="+string(rune('0'+boot))+" err=<nil>")
		require.Contains(t, lines, "TG disk name=vda mib=40 content=ext4")
		require.Contains(t, lines, "TG tpm none")
		require.Contains(t, lines, "TG pong hello")
		require.Contains(t, lines, `TG cat "kept" err=<nil>`)
		require.Contains(t, lines, `TG cat "" err=open /root/absent: no such file or directory`)
		require.Contains(t, lines, "TG poweroff")
	}
}

func TestBuildUsesItsCache(t *testing.T) {
	t.Parallel()
	needRoot(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, guest.Build(ctx, first, guest.Options{}))
	require.NoError(t, guest.Build(ctx, second, guest.Options{}))
	a, err := os.ReadFile(first)
	require.NoError(t, err)
	b, err := os.ReadFile(second)
	require.NoError(t, err)
	require.True(t, bytes.Equal(a, b), "the second is the first one's copy")
	require.NoError(t, guest.Build(ctx, second, guest.Options{Format: "raw", SizeMiB: 48}))
	info, err := os.Stat(second)
	require.NoError(t, err)
	require.EqualValues(t, 48<<20, info.Size())
	require.ErrorContains(t, guest.Build(ctx, second, guest.Options{Format: "vmdk"}), "vmdk")
}

// The idle guest obeys the power button.
func TestIdleGuestPowersOff(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "idle.qcow2")
	require.NoError(t, guest.BuildIdle(t.Context(), image))
	poweredOff(t, image, "")
}

// The counting guest obeys it too, and says how often its disk was booted from.
func TestCountingGuestCounts(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "counting.qcow2")
	require.NoError(t, guest.BuildCounting(t.Context(), image))
	for _, boots := range []string{"1", "2"} {
		poweredOff(t, image, guest.CountingText+boots+" TG ready")
	}
}

// poweredOff boots an image and presses the power button until it is off, once it said something.
func poweredOff(t *testing.T, image, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	serial := filepath.Join(t.TempDir(), "serial")
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-m", "128", "-nodefaults", "-nographic",
		"-monitor", "stdio", "-serial", "file:"+serial, "-drive", "file="+image+",format=qcow2,if=virtio")
	monitor, err := qemu.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, qemu.Start())
	done := make(chan error, 1)
	go func() { done <- qemu.Wait() }()
	for press := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		case <-press.C: // until the guest is there to see it
			if said, _ := os.ReadFile(serial); strings.Contains(string(said), says) {
				_, _ = monitor.Write([]byte("system_powerdown\n"))
			}
		}
	}
}

// talk boots an image, sends it commands once it is ready, and gives its lines.
func talk(ctx context.Context, t *testing.T, image string, commands ...string) []string {
	t.Helper()
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-m", "192", "-nodefaults", "-nographic",
		"-serial", "stdio", "-no-reboot", "-drive", "file="+image+",format=qcow2,if=virtio")
	in, err := qemu.StdinPipe()
	require.NoError(t, err)
	out, err := qemu.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, qemu.Start())
	defer func() { require.NoError(t, qemu.Wait()) }()
	var lines []string
	for s := bufio.NewScanner(out); s.Scan(); {
		_, line, found := strings.Cut(s.Text(), "TG ")
		if !found {
			continue
		}
		line = "TG " + strings.TrimSpace(line)
		lines = append(lines, line)
		if strings.HasPrefix(line, "TG ready") {
			_, err := in.Write([]byte(strings.Join(commands, "\n") + "\n"))
			require.NoError(t, err)
		}
	}
	return lines
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getenv("CI") == "" && os.Getuid() != 0 {
		t.Skip("needs root for a loop mount")
	}
}
