package metadata_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/compute/metadata"
)

// SH-35: the script of docs/shares.md finds a server's shares in its metadata, by the service or on the config drive, and mounts each of
// them that is not mounted yet, whichever of them cannot be mounted. What mounts is not the kernel: that has no device of virtiofs here.
func TestSH35AGuestMountsItsSharesByItself(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"curl", "python3"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
			t.Skip("needs " + program)
		}
	}
	text, err := os.ReadFile("../../docs/shares.md")
	require.NoError(t, err)
	_, script, found := strings.Cut(string(text), "```sh\n")
	require.True(t, found)
	script, _, found = strings.Cut(script, "```\n")
	require.True(t, found)

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
