package compute_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// A6: a kind that is declared and not in the order would never be removed.
func TestA6EveryKindHasItsPlaceInTheOrder(t *testing.T) {
	t.Parallel()
	var kinds []compute.ThingKind
	for _, value := range declared(t, "ThingKind") {
		kinds = append(kinds, compute.ThingKind(value))
	}
	require.Greater(t, len(kinds), 10)
	require.ElementsMatch(t, kinds, compute.TeardownOrder)
	for i, kind := range compute.TeardownOrder {
		for _, first := range compute.GoneFirst(kind) {
			require.Less(t, slices.Index(compute.TeardownOrder, first), i, "%s goes after %s", kind, first)
		}
	}
}

// N4: the kinds that are named by their server; names of others derive from the operation that makes the thing.
func TestN4TheKindsThatAreNamedByTheirServer(t *testing.T) {
	t.Parallel()
	require.Equal(t, []compute.ThingKind{
		compute.ThingRunningDomain, compute.ThingDomain, compute.ThingShareMount, compute.ThingTPMState, compute.ThingVolumeMount, compute.ThingVolumeMapping,
		compute.ThingPluggedPort, compute.ThingShareAccess,
	}, slices.DeleteFunc(slices.Clone(compute.TeardownOrder), func(kind compute.ThingKind) bool { return !compute.NamedByServer(kind) }))
}

func TestMustWaitFor(t *testing.T) {
	t.Parallel()
	host, other := uuid.NewString(), uuid.NewString()
	owner := compute.ServerOwner(server)
	thing := func(kind compute.ThingKind, place string) compute.Thing {
		return compute.Thing{Kind: kind, Place: place, Owner: owner, State: compute.ThingWaiting}
	}
	disk, key := thing(compute.ThingDiskFile, host), thing(compute.ThingKeySecret, compute.PlaceKeyManager)
	require.True(t, disk.MustWaitFor(thing(compute.ThingDomain, host)))
	require.False(t, disk.MustWaitFor(thing(compute.ThingDomain, other)), "what is elsewhere runs from other disks")
	require.True(t, key.MustWaitFor(disk), "wherever the disk is")
	require.False(t, disk.MustWaitFor(key))
	used := disk
	used.State = compute.ThingPresent
	require.False(t, key.MustWaitFor(used), "it is in use, and another key opens it")
	disk.Owner = compute.Owner{Kind: compute.OwnerShare, ID: server.UUID}
	require.False(t, key.MustWaitFor(disk), "another owner's")
}

func TestRemoversOfWhatNoServerOwns(t *testing.T) {
	t.Parallel()
	owners := compute.Credential{ID: uuid.New(), ProjectID: "p", UserID: "u"}
	rule := compute.Thing{Kind: compute.ThingObject, Owner: compute.Owner{Kind: compute.OwnerShare, ID: uuid.New()}, Credential: owners}
	require.Equal(t, []compute.Credential{owners, compute.MemberCredential("p")}, rule.Removers(owners))
}

func TestKeySlotsOf(t *testing.T) {
	t.Parallel()
	op := compute.NewOperationID()
	id, file, old, ok := compute.KeySlotsOf(compute.AddedKeySlots(server, "disk.eph0", op))
	require.True(t, ok)
	require.Equal(t, server, id)
	require.Equal(t, "disk.eph0", file)
	require.False(t, old)
	_, _, old, ok = compute.KeySlotsOf(compute.OldKeySlots(server, "disk", op))
	require.True(t, ok)
	require.True(t, old)
	for _, bad := range []string{"", "disk#req", "x/disk#req", server.String() + "/disk"} {
		_, _, _, ok := compute.KeySlotsOf(bad)
		require.False(t, ok, bad)
	}
}

func TestThingSecret(t *testing.T) {
	t.Parallel()
	id := compute.SecretID{UUID: uuid.New()}
	got, ok := compute.Thing{Kind: compute.ThingKeySecret, Reference: id.String()}.Secret()
	require.True(t, ok)
	require.Equal(t, id, got)
	for _, none := range []compute.Thing{
		{Kind: compute.ThingKeySecret}, {Kind: compute.ThingKeySecret, Reference: "x"}, {Kind: compute.ThingImage, Reference: id.String()},
	} {
		_, ok := none.Secret()
		require.False(t, ok)
	}
}
