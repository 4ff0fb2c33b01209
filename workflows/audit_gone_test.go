package workflows_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// P21: a project that was deleted is not told as one that no credential opens. What the ledger
// has of it is told, once.
func TestP21AnAuditLeavesOutProjectsThatAreGone(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	all, left := []string{"closed", "gone", "gone with things", "open by an old token"}, []compute.GoneProject{{Project: "gone with things", Things: 3}}
	b.doomed = doomed{closed: all, gone: all[1:], open: all[3:], left: left}
	got := b.runAudit()
	require.ElementsMatch(t, []string{
		"the key manager's project closed", "the key manager's project open by an old token",
		"the object store's project closed", "the object store's project open by an old token",
	}, got.Closed)
	require.Equal(t, left, got.Gone)
	require.Len(t, b.doomed.last, 2, "one last look into each service")
	for _, in := range b.doomed.last {
		require.Len(t, in.Projects, 3)
		for _, p := range in.Projects {
			require.Equal(t, []compute.Credential{compute.MemberCredential(p.Project)}, p.Credentials, "with strongroom's own role")
		}
	}

	// Where Keystone gives no answer, all of them are as they were.
	b.doomed = doomed{closed: all, gone: all[1:], left: left, unknown: errors.New("Keystone is away")}
	got = b.runAudit()
	require.Len(t, got.Closed, 2*len(all))
	require.Empty(t, got.Gone)
	require.Empty(t, b.doomed.last)
}
