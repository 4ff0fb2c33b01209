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

// SH-35: the script of docs/shares.md finds a server's shares in its metadata, and mounts each of them that is not mounted yet. What
// mounts is not the kernel: that has no device of virtiofs here.
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

	s := metadata.Server{Shares: []compute.ShareMapping{
		{Share: compute.ShareID{UUID: uuid.New()}, Tag: "data"}, {Share: compute.ShareID{UUID: uuid.New()}, Tag: "there"}, {Share: compute.ShareID{UUID: uuid.New()}, Tag: "-o"},
	}}
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
		"mount": `echo "$@" >>"$MOUNTED"`, "mountpoint": `[ "$2" = "$MOUNTS/there" ]`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+program+"\n"), 0o700))
	}
	run := func(url string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "METADATA="+url, "MOUNTS="+mounts, "MOUNTED="+filepath.Join(dir, "mounted"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run(service.URL)
	require.NoError(t, err, out)
	mounted, err := os.ReadFile(filepath.Join(dir, "mounted"))
	require.NoError(t, err)
	require.Equal(t, "-t virtiofs -- data "+mounts+"/data\n-t virtiofs -- -o "+mounts+"/-o\n", string(mounted))
	require.DirExists(t, mounts+"/data")

	_, err = run(service.URL + "/nothing")
	require.Error(t, err, "a guest without metadata says so")
}
