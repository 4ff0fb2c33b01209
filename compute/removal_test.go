package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestRemovalSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	id := compute.ImageID{UUID: uuid.MustParse("22222222-2222-4333-8444-555555555555")}
	port := compute.PortID(id)
	root := compute.Disk{Role: compute.RootDisk}
	for want, thing := range map[string]compute.Thing{
		"delete domain instance-" + server.String():            {Kind: compute.ThingDomain, Name: compute.InstanceName(server)},
		"delete libvirt secret " + id.String():                 {Kind: compute.ThingHypervisorSecret, Name: id.String()},
		"erase key slots of disk " + server.String() + "/disk": {Kind: compute.ThingKeySlot, Name: compute.OldKeySlots(server, "disk", operation)},
		"delete disk file " + server.String() + "/disk.swap":   {Kind: compute.ThingDiskFile, Name: server.String() + "/disk.swap"},
		"release cached image p/copy/use":                      {Kind: compute.ThingCachedImage, Name: "p/copy/use"},
		"delete TPM state of server " + server.String():        {Kind: compute.ThingTPMState, Name: server.String()},
		"delete image " + id.String():                          {Kind: compute.ThingImage, Name: id.String()},
		"delete object servers/x/tpm":                          {Kind: compute.ThingObject, Name: "servers/x/tpm"},
		"delete secret for disk root":                          {Kind: compute.ThingKeySecret, Name: compute.DiskSecret(server, operation, root).Name},
		"delete secret for source of disk root":                {Kind: compute.ThingKeySecret, Name: compute.BackingSecret(server, operation, root).Name},
		"delete secret for vtpm":                               {Kind: compute.ThingKeySecret, Name: compute.TPMSecret(server, operation).Name},
		"delete secret for image " + id.String():               {Kind: compute.ThingKeySecret, Name: compute.ImageSecret(id, operation).Name},
		"delete secret for a user's own":                       {Kind: compute.ThingKeySecret, Name: "a user's own"},
		"unplug port " + port.String():                         {Kind: compute.ThingPluggedPort, Name: compute.PortUse(port, server)},
		"delete trust":                                         {Kind: compute.ThingTrust, Name: compute.TrustName(server, operation)},
	} {
		require.Equal(t, want, compute.Removal{Thing: thing}.String())
	}
	for _, kind := range compute.TeardownOrder {
		require.NotContains(t, compute.Removal{Thing: compute.Thing{Kind: kind, Name: "x"}}.String(), "_", "a kind without words for people")
	}
}

func TestRemovalOfAServersThing(t *testing.T) {
	t.Parallel()
	r := compute.Removal{Thing: compute.Thing{Kind: compute.ThingDomain, Owner: compute.ServerOwner(server)}}
	got, err := r.OfServer()
	require.NoError(t, err)
	require.Equal(t, server, got)
	for _, owner := range []compute.Owner{{}, {Kind: compute.OwnerServer}, {Kind: compute.OwnerShare, ID: server.UUID}} {
		r.Thing.Owner = owner
		_, err := r.OfServer()
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
	}
	require.Equal(t, compute.Invalid, compute.KindOf(r.Misdirected()))
}

func TestKeySlotLists(t *testing.T) {
	t.Parallel()
	for text, slots := range map[string][]int{"0": {0}, "0,1,7": {0, 1, 7}} {
		require.Equal(t, text, compute.FormatSlots(slots))
		got, err := compute.ParseSlots(text)
		require.NoError(t, err)
		require.Equal(t, slots, got)
	}
	for _, text := range []string{"", ",", "0,", "x", "-1", "0 1"} {
		_, err := compute.ParseSlots(text)
		require.Equal(t, compute.Invalid, compute.KindOf(err), text)
	}
}
