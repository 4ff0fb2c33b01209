package workflows_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/record"
	"strongroom/compute"
)

// EE-03: the host that takes the server decides on the format that nobody asked for, also where
// another one was claimed first, and it is on record before a disk is made. EE-42: from then on no
// default matters to it.
func TestEE03TheHostThatTakesTheServerDecidesOnItsFormat(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.formats = map[compute.HostID]compute.DiskFormat{b.hosts[0]: compute.FormatPlain, b.hosts[1]: compute.FormatLUKSv2}
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	b.row.server.Flavor.ExtraSpecs = map[string]string{"hw:ephemeral_encryption": "true"}
	for i := range b.row.server.Disks {
		b.row.server.Disks[i].Format = compute.FormatNone
	}
	require.NoError(t, b.run(compute.OpCreate, in, silenced(&silence{hosts: b.hosts[:1]})))
	b.whole(in, compute.OpCreate)
	require.Equal(t, b.hosts[1], *b.row.server.Host)
	recorded := false
	for _, c := range b.names() {
		recorded = recorded || c.name == record.Advance.Name && strings.Contains(c.detail, `"format":"luksv2"`)
		if c.name == disk.Create.Name || c.name == disk.CreateCopy.Name {
			require.True(t, recorded, "on record before")
			var made disk.CreateInput
			require.NoError(t, json.Unmarshal([]byte(c.detail), &made))
			require.Equal(t, compute.FormatLUKSv2, made.Disk.Format)
		}
	}
	require.True(t, recorded)
	for _, d := range b.row.server.Disks {
		require.Equal(t, compute.FormatLUKSv2, d.Format)
	}

	b.formats[b.hosts[1]] = compute.FormatPlain
	b.forget()
	image := b.row.server.Image
	rebuild := b.accept(compute.OpRebuild, compute.TaskRebuilding, compute.RebuildArguments{Image: image})
	require.NoError(t, b.run(compute.OpRebuild, rebuild, nil))
	for _, d := range b.row.server.Disks {
		require.Equal(t, compute.FormatLUKSv2, d.Format)
	}
}
