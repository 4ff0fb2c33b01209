package workflows_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/key"
	"strongroom/compute"
	"strongroom/durable"
)

// comesFromNova is a bench with a server that is on record and was never here.
func comesFromNova(t *testing.T) *bench {
	b := stopped(t)
	b.row.server.VMState = compute.VMBuilding
	return b
}

func (b *bench) importsLegacy(force bool) (durable.OperationInput, error) {
	b.t.Helper()
	in := b.accept(compute.OpImportLegacy, compute.TaskBlockDevice, compute.ImportLegacyArguments{Key: compute.SecretID{UUID: uuid.New()}, Force: force})
	return in, b.run(compute.OpImportLegacy, in, nil)
}

// EE-48: an import ends with a server that is off; one that fails leaves it in ERROR, or as it was,
// and removes nothing: the volumes and the key are Nova's.
func TestEE48ImportLegacy(t *testing.T) {
	t.Parallel()
	b := comesFromNova(t)
	_, err := b.importsLegacy(true)
	require.NoError(t, err)
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	require.Empty(t, b.row.current)
	require.Equal(t, disk.AdoptInput{Server: b.row.server.ID, Force: true, Disks: b.adopted.Disks}, b.adopted)
	require.Len(t, b.adopted.Disks, len(b.row.server.Disks))
	for _, d := range b.adopted.Disks {
		require.Equal(t, compute.FormatPlain, d.Format)
	}

	for from, ends := range map[compute.VMState]compute.VMState{
		compute.VMBuilding: compute.VMError, compute.VMError: compute.VMError, compute.VMStopped: compute.VMStopped,
	} {
		b := comesFromNova(t)
		b.row.server.VMState = from
		b.fault = at(call{name: disk.Adopt.Name, nth: 1}, fault{after: fail})
		in, err := b.importsLegacy(false)
		require.Error(t, err)
		require.Equal(t, ends, b.row.server.VMState)
		require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
		for _, c := range b.names() {
			require.NotContains(t, []string{disk.Remove.Name, key.Remove.Name}, c.name, "nothing is removed")
		}
	}
}
