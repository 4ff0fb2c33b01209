package tpm_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/tpm"
	"strongroom/compute"
)

// plants is a process of swtpm's user that plants links, pipes and folders in the folder of a server's state, once for each line that it reads, and leaves one link there if that is "leave".
const plants = `cd "$1" || exit 1
while read -r go; do
	{
		chmod 777 .
		ln -s "$2" link; mkfifo pipe; ln -s "$2" tpm2-00.volatilestate
		mkdir folder; ln -s "$2" folder/link; mv tpm2-00.permall kept; ln -s "$2" tpm2-00.permall
		rm -rf link pipe tpm2-00.volatilestate folder; mv kept tpm2-00.permall
		[ "$go" = leave ] && ln -s "$2" left
	} 2>/dev/null
	echo done
done`

// S3: whatever a process of swtpm's user plants in the folder of a state meanwhile, root changes and reads nothing of the host's there, and hangs at no
// pipe. From the check before a start on, until libvirt gives it the folder back, it can plant nothing more.
func TestS3AProcessOfSwtpmsUserPlantsLinks(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it starts a process of another user")
	}
	h, _, objects := hosts(t)
	h.has("some state")
	const roots = "what only root may read"
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte(roots), 0o600))
	for _, name := range []string{".", "tpm2-00.permall", ".lock"} {
		require.NoError(t, os.Lchown(h.path("tpm2", name), h.Owner.UID, h.Owner.GID))
	}
	for dir := h.SwtpmDir; dir != os.TempDir(); dir = filepath.Dir(dir) { // it may come there
		require.NoError(t, os.Chmod(dir, 0o711))
	}

	cmd := exec.Command("/bin/sh", "-c", plants, "plants", h.path("tpm2"), victim)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(h.Owner.UID), Gid: uint32(h.Owner.GID)}}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := bufio.NewScanner(out)
	round := func(how string) bool {
		_, err := io.WriteString(in, how+"\n")
		return err == nil && said.Scan()
	}

	require.True(t, round("remove"), "it has come there")
	var rounds atomic.Int32
	ends := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ends:
				return
			default:
				if !round("remove") {
					return
				}
				rounds.Add(1)
			}
		}
	}()
	for i := 0; rounds.Load() < 40; i++ {
		select {
		case <-stopped:
			require.Fail(t, "the process has ended")
		default:
		}
		require.NoError(t, h.GiveFoldersToRoot())
		_, _ = h.Shown(t.Context(), tpm.ShowInput{Server: h.server, Version: compute.TPM20})
		_ = h.NoteNew(t.Context(), h.server, "req-new", time.Now())
		name := compute.TPMObject(h.server, compute.OperationID(fmt.Sprintf("req-%d", i)))
		if _, err := h.save(name); err == nil {
			body, err := objects.Open(t.Context(), cred, name, 0)
			require.NoError(t, err)
			data, err := io.ReadAll(body)
			require.NoError(t, err)
			require.NoError(t, body.Close())
			require.NotContains(t, string(data), roots)
		}
		if i%4 == 0 { // the folder is root's then, and the process can do nothing until it gets it back
			_ = h.Check(t.Context(), h.server, compute.TPM20, false)
			require.NoError(t, os.Lchown(h.path("tpm2"), h.Owner.UID, h.Owner.GID))
		}
	}
	close(ends)
	<-stopped
	_ = h.Check(t.Context(), h.server, compute.TPM20, false)
	require.True(t, round("leave"))
	require.NoFileExists(t, h.path("tpm2", "left"), "from the check on it plants nothing")
	require.NoError(t, os.Lchown(h.path("tpm2"), h.Owner.UID, h.Owner.GID))
	require.True(t, round("leave"))
	_, err = os.Lstat(h.path("tpm2", "left"))
	require.NoError(t, err, "it was there all the time")
	err = h.Check(t.Context(), h.server, compute.TPM20, false)
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())

	is, err := os.Stat(victim)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), is.Mode().Perm())
	require.Zero(t, ownerOf(t, victim))
	data, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, roots, string(data))
}
