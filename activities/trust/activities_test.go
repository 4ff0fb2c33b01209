package trust_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/trust"
	"strongroom/activities/trust/local"
	"strongroom/compute"
)

// A delete goes on to the next credential for as long as each is refused.
func TestOtherCredentialsAreTried(t *testing.T) {
	t.Parallel()
	keeper, err := local.Open(t.TempDir())
	require.NoError(t, err)
	a := &trust.Activities{Keeper: keeper}
	owner, stranger := compute.Credential{ProjectID: "p1", UserID: "u1"}, compute.Credential{ProjectID: "p2", UserID: "u2"}
	made, err := a.Create(t.Context(), trust.CreateInput{Credential: owner, Name: "server"})
	require.NoError(t, err)
	in := trust.DeleteInput{Credential: stranger, Others: []compute.Credential{{}, stranger}, Name: "server", ID: made.Trust}
	err = a.Delete(t.Context(), in)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)

	in.Others = append(in.Others, owner)
	require.NoError(t, a.Delete(t.Context(), in))
	left, err := a.Inventory(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
}
