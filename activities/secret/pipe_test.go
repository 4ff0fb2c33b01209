package secret_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"strongroom/activities/secret"
)

func TestPipeReachesAChild(t *testing.T) {
	for name, script := range map[string]string{
		"by descriptor": "cat <&3",
		"by path":       "cat /dev/fd/3",
	} {
		t.Run(name, func(t *testing.T) {
			p, err := secret.Generate(384)
			require.NoError(t, err)
			want := reveal(t, p)
			r, err := p.Pipe()
			require.NoError(t, err)
			p.Wipe() // the child still gets what was taken
			cmd := exec.Command("sh", "-c", script)
			cmd.ExtraFiles = []*os.File{r}
			out, err := cmd.Output()
			require.NoError(t, r.Close())
			require.NoError(t, err)
			require.Equal(t, want, string(out))
		})
	}
}

func TestPipeLeaksNothingWhenNobodyReads(t *testing.T) {
	before := openFiles(t)
	stays := goleak.IgnoreCurrent()
	for range 20 {
		p := secret.New(bytes.Repeat([]byte("x"), 1<<20)) // more than a pipe holds: the writer blocks
		r, err := p.Pipe()
		require.NoError(t, err)
		cmd := exec.Command("true")
		cmd.ExtraFiles = []*os.File{r}
		require.NoError(t, cmd.Run())
		require.NoError(t, r.Close())
		p.Wipe()
	}
	goleak.VerifyNone(t, stays)
	require.LessOrEqual(t, openFiles(t), before)
}

func TestPipeCarriesMoreThanAPipeHolds(t *testing.T) {
	p := secret.New(bytes.Repeat([]byte("y"), 1<<20))
	r, err := p.Pipe()
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Len(t, got, 1<<20)
}

func TestPipeOfAWipedPassphraseFails(t *testing.T) {
	p := secret.New([]byte("x"))
	p.Wipe()
	_, err := p.Pipe()
	require.ErrorIs(t, err, secret.ErrWiped)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}
