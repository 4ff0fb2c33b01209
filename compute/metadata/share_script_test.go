package metadata_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/compute/metadata"
)

// block gives a block of docs/shares.md, by its language, and the file that the text before it says it is.
func block(t *testing.T, language string) (file, text string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/shares.md")
	require.NoError(t, err)
	before, text, found := strings.Cut(string(page), "```"+language+"\n")
	require.True(t, found)
	text, _, found = strings.Cut(text, "```\n")
	require.True(t, found)
	files := regexp.MustCompile("`(/[^`{}]+)`").FindAllStringSubmatch(before, -1)
	require.NotEmpty(t, files)
	return files[len(files)-1][1], text
}

// SH-35: the unit of docs/shares.md starts that script at each boot, once the network is there, and is given up in the end where a mount hangs.
func TestSH35AGuestMountsItsSharesWhenItBoots(t *testing.T) {
	t.Parallel()
	script, _ := block(t, "sh")
	file, unit := block(t, "ini")
	require.Equal(t, "/etc/systemd/system/"+filepath.Base(script)+".service", file)
	said, section := map[string]string{}, ""
	for line := range strings.Lines(unit) {
		switch key, value, found := strings.Cut(strings.TrimSpace(line), "="); {
		case found:
			said[section+key] = value
		case key != "":
			section = key
		}
	}
	require.NotEmpty(t, said["[Unit]Description"])
	delete(said, "[Unit]Description")
	require.Equal(t, map[string]string{
		"[Unit]Wants": "network-online.target", "[Unit]After": "network-online.target",
		"[Service]Type": "oneshot", "[Service]ExecStart": script, "[Service]TimeoutStartSec": "5min", "[Install]WantedBy": "multi-user.target",
	}, said)
}

// SH-35: the script of docs/shares.md finds a server's shares in its metadata, by the service or on the config drive, and mounts each of
// them that is not mounted yet, whichever of them cannot be mounted. What mounts is not the kernel: that has no device of virtiofs here.
func TestSH35AGuestMountsItsSharesByItself(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"curl", "python3"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
			t.Skip("needs " + program)
		}
	}
	_, script := block(t, "sh")

	s := metadata.Server{}
	for _, tag := range []string{"broken", "data", "there", "-o"} {
		s.Shares = append(s.Shares, compute.ShareMapping{Share: compute.ShareID{UUID: uuid.New()}, Tag: tag})
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := s.Lookup(r.URL.Path, bytes.NewReader(make([]byte, 512)))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(got.Body)
	}))
	t.Cleanup(service.Close)
	dir := t.TempDir()
	mounts := filepath.Join(dir, "mnt")
	for name, program := range map[string]string{
		"mount": `echo "$@" >>"$MOUNTED"; [ "$4" != broken ] || [ -n "$MENDED" ]`, "mountpoint": `[ "$2" = "$MOUNTS/there" ]`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+program+"\n"), 0o700))
	}
	drive, log := filepath.Join(dir, "drive"), filepath.Join(dir, "mounted")
	run := func(url, mended string) (mounted, said string, err error) {
		require.NoError(t, os.WriteFile(log, nil, 0o600))
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "METADATA="+url, "DRIVE="+drive, "MOUNTS="+mounts, "MOUNTED="+log, "MENDED="+mended)
		out, err := cmd.CombinedOutput()
		text, read := os.ReadFile(log)
		require.NoError(t, read)
		return string(text), string(out), err
	}
	var all strings.Builder
	for _, tag := range []string{"broken", "data", "-o"} {
		all.WriteString("-t virtiofs -- " + tag + " " + mounts + "/" + tag + "\n")
	}
	mounted, out, err := run(service.URL, "yes")
	require.NoError(t, err, out)
	require.Equal(t, all.String(), mounted)
	require.DirExists(t, mounts+"/data")
	mounted, _, err = run(service.URL, "")
	require.Error(t, err, "one could not be mounted")
	require.Equal(t, all.String(), mounted, "the others are")

	const nobody = "http://127.0.0.1:1"
	_, _, err = run(nobody, "yes")
	require.Error(t, err, "a guest without metadata says so")
	_, _, err = run(service.URL+"/nothing", "yes")
	require.Error(t, err)
	got, err := s.Lookup("/openstack/2025-04-04/meta_data.json", bytes.NewReader(make([]byte, 512)))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(drive, "openstack/2025-04-04"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(drive, "openstack/2025-04-04/meta_data.json"), got.Body, 0o600))
	mounted, out, err = run(nobody, "yes")
	require.NoError(t, err, out)
	require.Equal(t, "-o ro /dev/disk/by-label/config-2 "+drive+"\n"+all.String(), mounted)
}
