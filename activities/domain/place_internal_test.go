package domain

import (
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"
)

// A guest keeps what its firmware says of the machine: libvirt takes no other one in that runs.
func TestFirmwareSaysTheSameAfterAMove(t *testing.T) {
	t.Parallel()
	document := func(says bool) string {
		d := libvirtxml.Domain{Type: "qemu", UUID: "11111111-2222-4333-8444-555555555501", OS: &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Machine: "q35", Type: "hvm"}}}
		if says {
			addSMBIOS(&d)
		}
		text, err := d.Marshal()
		require.NoError(t, err)
		return text
	}
	for _, says := range []bool{true, false} {
		got, err := adopt(document(true), document(says))
		require.NoError(t, err)
		require.Equal(t, document(says), got)
	}
}
