package strongroom_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom"
)

// The version is the file's, and one that Temporal takes as a build id and semantic
// versioning as a version.
func TestVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("VERSION")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(text)), strongroom.Version())
	require.Regexp(t, `^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`, strongroom.Version())
}

// A build that is stamped says what it was stamped with.
func TestTheBinarySaysItsVersion(t *testing.T) {
	t.Parallel()
	const want = "9.9.9+patched"
	run := []string{"run", "-ldflags", "-w -X strongroom.stamped=" + want, "./cmd/strongroom", "version"} // Go keeps the program
	out, err := exec.Command("go", run...).CombinedOutput()
	require.NoError(t, err, string(out))
	first, _, _ := strings.Cut(string(out), "\n")
	require.Equal(t, []string{"strongroom", want}, strings.Fields(first))
	out, err = exec.Command("go", append(run, "-o", "json")...).CombinedOutput()
	require.NoError(t, err, string(out))
	var said struct{ Version, Go string }
	require.NoError(t, json.Unmarshal(out, &said))
	require.Equal(t, want, said.Version)
	require.NotEmpty(t, said.Go)
}
