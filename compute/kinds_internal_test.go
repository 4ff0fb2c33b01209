package compute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// N3: a new kind of thing says whether servers are made of it, and what to do about one that is lost, or is added here, where it is seen.
func TestN3EveryKindSaysWhetherServersAreMadeOfIt(t *testing.T) {
	t.Parallel()
	var unused, forNothing []ThingKind
	for _, k := range kinds {
		require.NotNil(t, k.removal, k.kind)
		switch {
		case k.uses == nil:
			unused = append(unused, k.kind)
			require.Nil(t, k.lost, "no server is made of %s", k.kind)
		case k.lost == nil:
			forNothing = append(forNothing, k.kind)
		}
	}
	require.Equal(t, []ThingKind{
		ThingRunningDomain, ThingHypervisorSecret, ThingKeySlot, ThingVolumeMount, ThingVolumeMapping, ThingPluggedPort, ThingImage,
	}, unused, "things of operations, and of what is no server")
	require.Equal(t, []ThingKind{ThingCachedImage, ThingTrust}, forNothing, "without these a server is deleted")
}
