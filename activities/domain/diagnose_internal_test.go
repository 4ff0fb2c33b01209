package domain

import (
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"
)

// What libvirt says of a machine that is busy is not taken for one without memory and disks.
func TestDiagnosticsOfABusyMachine(t *testing.T) {
	t.Parallel()
	param := func(field string) libvirt.TypedParam {
		return libvirt.TypedParam{Field: field, Value: *libvirt.NewTypedParamValueUllong(1)}
	}
	busy := []libvirt.TypedParam{param("vcpu.current"), param("balloon.maximum")}
	require.False(t, countsOf(nil).whole())
	require.False(t, countsOf(busy).whole())
	require.True(t, countsOf(append(busy, param("balloon.current"), param("block.count"))).whole())
}
