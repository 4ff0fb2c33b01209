package trust_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/trust"
	"strongroom/activities/trust/local"
	"strongroom/compute"
)

// A removal goes on to the next credential for as long as each is refused.
func TestOtherCredentialsAreTried(t *testing.T) {
	t.Parallel()
	keeper, err := local.Open(t.TempDir())
	require.NoError(t, err)
	a := &trust.Activities{Keeper: keeper}
	owner, stranger := compute.Credential{ProjectID: "p1", UserID: "u1"}, compute.Credential{ProjectID: "p2", UserID: "u2"}
	made, err := a.Create(t.Context(), trust.CreateInput{Credential: owner, Name: "server"})
	require.NoError(t, err)
	in := compute.Removal{
		Thing:       compute.Thing{Kind: compute.ThingTrust, Name: "server", Reference: made.Trust},
		Credentials: []compute.Credential{stranger, {}, stranger},
	}
	err = a.Remove(t.Context(), in)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	seen, err := a.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	want := []compute.Seen{{Kind: compute.ThingTrust, Name: "server"}}
	require.Equal(t, compute.SeenResult{Seen: want, Looked: []string{compute.LookedAll}}, seen)

	in.Credentials = append(in.Credentials, owner)
	for range 2 {
		require.NoError(t, a.Remove(t.Context(), in))
	}
	seen, err = a.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	require.Empty(t, seen.Seen)
	in.Thing.Kind = compute.ThingKeySecret
	err = a.Remove(t.Context(), in)
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
}
