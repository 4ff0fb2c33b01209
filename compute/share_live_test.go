package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// A guest that runs is given a share where its host can do that and its memory is shared: since it was started with
// a share, or since its flavor or its image requires such a host.
func TestWhichGuestsTakeSharesWhileTheyRun(t *testing.T) {
	t.Parallel()
	const required = "trait:" + compute.TraitLiveShares
	plain := compute.Server{}
	flavor := compute.Server{Flavor: compute.Flavor{ExtraSpecs: map[string]string{required: "required"}}}
	image := compute.Server{Image: compute.Image{Properties: map[string]string{required: "required"}}}
	not := compute.Server{Flavor: compute.Flavor{ExtraSpecs: map[string]string{required: "forbidden"}}}
	with := func(status compute.ShareStatus) compute.Server {
		return compute.Server{Shares: []compute.ShareMapping{{Status: status}}}
	}
	able := []string{compute.TraitVirtioFS, compute.TraitLiveShares}
	for _, tc := range []struct {
		server           compute.Server
		traits           []string
		can, sharesFirst bool
	}{
		{plain, able, false, false},
		{not, able, false, false},
		{flavor, able, true, true},
		{flavor, able[:1], false, true},
		{image, able, true, true},
		{with(compute.ShareActive), able, true, true},
		{with(compute.ShareActive), able[:1], false, true},
		{with(compute.ShareInactive), able, false, true},
		{with(compute.ShareError), able, false, true},
	} {
		require.Equal(t, tc.can, tc.server.CanShareLive(tc.traits), tc)
		require.Equal(t, tc.sharesFirst, tc.server.SharesMemory(), tc)
	}
}

// Live or not, an attachment and its end begin from states that do not overlap.
func TestFromWhereSharesComeAndGo(t *testing.T) {
	t.Parallel()
	off, live := compute.ShareArguments{}, compute.ShareArguments{Live: true}
	require.Equal(t, compute.ShareAttach.Transition, compute.ShareAttach.With(off).Transition)
	require.Equal(t, compute.ShareDetach.Transition, compute.ShareDetach.With(off).Transition)
	for _, action := range []compute.Action[compute.ShareArguments]{compute.ShareAttach, compute.ShareDetach} {
		require.Equal(t, []compute.VMState{compute.VMActive}, action.With(live).Transition.From)
		require.Equal(t, action.Transition.Task, action.With(live).Transition.Task)
		require.NotContains(t, action.Transition.From, compute.VMActive)
	}
}
