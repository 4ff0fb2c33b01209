package initializer_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/secret"
	"strongroom/securepv/initializer"
)

// between is a kernel during whose calls something else happens.
type between struct {
	loops
	named, opened func()
}

func (k *between) Name(device string) (string, error) {
	if now := k.named; now != nil {
		k.named = nil
		now()
	}
	return k.loops.Name(device)
}

func (k *between) Open(ctx context.Context, device string, header *os.File, name string, key *secret.Passphrase) error {
	err := k.loops.Open(ctx, device, header, name, key)
	if k.opened != nil {
		k.opened()
	}
	return err
}

// Of two first starts at once one formats the volume, whichever step the other comes at.
func TestPV11TwoFirstStartsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second, times := *b.opener, 0
	b.opener.Step = func(step string) {
		if step == "mounted" || step == "grown" {
			return
		}
		times++
		_, err := second.Open(t.Context(), b.volume, pass(seed))
		if step == "first block" { // it has a header
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, initializer.ErrBusy, step)
	}
	require.False(t, b.opens())
	require.Equal(t, 9, times)
	require.Equal(t, 1, b.kernel.formats())
	b.opener.Step = nil
	b.closes()
}

// A volume that was new when it was looked at, and was formatted before it is written, keeps its data.
func TestPV11FormattedAfterTheLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := *b.opener
	first.Kernel = &between{loops: b.kernel, named: func() {
		b.opens()
		require.NoError(t, os.WriteFile(b.data(), []byte("kept"), 0o600))
		b.closes()
	}}
	_, err := first.Open(t.Context(), b.volume, pass(seed))
	require.ErrorIs(t, err, initializer.ErrBusy)
	b.opens()
	got, err := os.ReadFile(b.data())
	require.NoError(t, err)
	require.Equal(t, "kept", string(got))
	require.Equal(t, 1, b.kernel.formats())
	b.closes()
}

// No file system is made in what another start has opened, and that stays open.
func TestPV11MakesNoFileSystemInAnothersMapping(t *testing.T) {
	t.Parallel()
	b := setup(t)
	file := b.kernel.file("pv-device", "map")
	theirs := strings.ReplaceAll(uuid.NewString(), "-", "")
	b.opener.Kernel = &between{loops: b.kernel, opened: func() {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		path, _, _ := strings.Cut(string(text), " ")
		require.NoError(t, os.WriteFile(file, []byte(path+" "+theirs), 0o600))
	}}
	b.opener.Step = func(step string) { require.NotEqual(t, "cleared", step) }
	_, err := b.open(seed)
	require.ErrorIs(t, err, initializer.ErrBusy)
	require.FileExists(t, file)
}

// A header is written over the note of its own format alone.
func TestPV11WritesItsHeaderOverItsOwnNote(t *testing.T) {
	t.Parallel()
	a, b := setup(t), setup(t)
	a.killed(func(step string) bool { return step == "begun" }, seed) // another format, under the same secret
	theirs := a.begin()[:4096]
	b.opener.Step = func(step string) {
		if step == "file system" {
			b.write(0, theirs)
		}
	}
	_, err := b.open(seed)
	require.ErrorIs(t, err, initializer.ErrBusy)
	require.Equal(t, string(theirs[:200]), string(b.begin()[:200]))
	b.opener.Step = nil
	b.opens()
	require.Equal(t, 2, b.kernel.formats(), "it begins again")
	b.closes()
}
