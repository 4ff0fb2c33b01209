package integration_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
)

// arm makes the next worker that reaches a fault point die there, and requires
// at the end of the test that one did.
func (c *testCloud) arm(t *testing.T, point string) {
	t.Helper()
	path := filepath.Join(c.faults, point)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	t.Cleanup(func() {
		require.NoFileExists(t, path, "the point was never reached")
		_ = os.Remove(path)
	})
}

// held is a fault point at which everything waits.
type held struct{ path string }

// hold makes whatever reaches a fault point wait there.
func (c *testCloud) hold(t *testing.T, point string) held {
	t.Helper()
	h := held{filepath.Join(c.faults, point)}
	// It must appear whole: an empty one kills.
	require.NoError(t, os.WriteFile(h.path+".new", []byte("hold"), 0o600))
	require.NoError(t, os.Rename(h.path+".new", h.path))
	t.Cleanup(h.release)
	return h
}

// reached reports whether something waits there.
func (h held) reached() bool {
	_, err := os.Stat(h.path + ".reached")
	return err == nil
}

// waits waits until something waits there.
func (h held) waits(t *testing.T, witnesses ...await.Witness) {
	t.Helper()
	await.For(t, filepath.Base(h.path)+" is reached", h.reached, witnesses...)
}

// release lets everything go on.
func (h held) release() {
	_ = os.Remove(h.path)
	_ = os.Remove(h.path + ".reached")
}
