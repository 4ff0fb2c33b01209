package domain

import (
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// A guest keeps the video card that it has, or has none, where it comes from: QEMU takes it no other way. What shows it is this
// host's.
func TestAScreenMovesWithItsGuest(t *testing.T) {
	t.Parallel()
	slot := uint(1)
	at := &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Slot: &slot}}
	for name, c := range map[string]struct{ hasHere, hadThere bool }{
		"neither": {false, false}, "here alone": {true, false}, "there alone": {false, true}, "both": {true, true},
	} {
		var is, was libvirtxml.DomainDeviceList
		if c.hasHere {
			addScreen(&is, "/run/here", compute.Hardware{})
		}
		if c.hadThere {
			addScreen(&was, "/run/there", compute.Hardware{})
			was.Videos[0].Address = at
		}
		adoptPlaces(&is, &was)
		require.Len(t, is.Videos, len(was.Videos), name)
		if c.hadThere {
			require.Equal(t, was.Videos[0].Model, is.Videos[0].Model, name)
			require.Equal(t, slot, *is.Videos[0].Address.PCI.Slot, name)
		}
		require.Equal(t, c.hasHere && c.hadThere, len(is.Graphics) == 1, name)
		if len(is.Graphics) == 1 {
			require.Equal(t, "/run/here", is.Graphics[0].VNC.Listeners[0].Socket.Socket)
		}
	}
}
