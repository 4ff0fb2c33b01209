package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who starts a stack is told whose servers have a network.
func TestNetworksHint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hint := func(projects, hosts int, cloud string) string {
		t.Helper()
		users := "projects:\n"
		for i := range projects {
			users += fmt.Sprintf("  - {id: p%d, name: project-%d}\n", i, i)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "users.yaml"), []byte(users), 0o600))
		return Config{Layout: Layout{State: dir}, Hosts: hosts, Cloud: cloud}.networksHint()
	}
	require.Equal(t, "one for each project; servers that name none are on it", hint(maxNetworks, 1, ""))
	require.Equal(t, "one for each of the first 8 projects of users.yaml; the other 2: --nic none", hint(maxNetworks+2, 1, ""))
	require.Contains(t, hint(1, 2, ""), "none, for there are several hosts")
	require.Contains(t, hint(1, 1, "clouds.yaml"), "networks.backend")
}
