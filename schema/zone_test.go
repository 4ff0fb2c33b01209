package schema_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// The zone of a host's aggregate goes before the one that the host reports, wherever one is read; the other metadata of all of its aggregates
// come with it.
func TestAHostHasTheZoneOfItsAggregate(t *testing.T) {
	t.Parallel()
	f := schematest.NewFixture(t)
	in, out := f.Host("in", 8, 8192), f.Host("out", 8, 8192)
	for _, metadata := range []map[string]string{{"availability_zone": "east", "ssd": "true"}, {"sum": "a=b"}, {}} {
		made, err := f.Q.InsertAggregate(f.Ctx, schema.InsertAggregateParams{UUID: uuid.New(), Name: uuid.NewString(), Metadata: metadata})
		require.NoError(t, err)
		_, err = f.Q.AddAggregateHost(f.Ctx, schema.AddAggregateHostParams{AggregateNumber: made.Number, HostID: in})
		require.NoError(t, err)
	}
	rows, err := f.Q.HostsWithUse(f.Ctx, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"east", "az-out"}, []string{rows[0].Zone, rows[1].Zone})
	require.Equal(t, "az-in", rows[0].AvailabilityZone, "as it reports")
	require.Equal(t, []string{"availability_zone=east", "ssd=true", "sum=a=b"}, rows[0].AggregateMetadata)
	require.Empty(t, rows[1].AggregateMetadata)
	require.Equal(t, compute.AggregateMetadata{"availability_zone": {"east"}, "ssd": {"true"}, "sum": {"a=b"}}, rows[0].Host().Aggregates)
	use, err := f.Q.HostUse(f.Ctx, in)
	require.NoError(t, err)
	require.Equal(t, []any{rows[0].Zone, rows[0].AggregateMetadata}, []any{use.Zone, use.AggregateMetadata})
	named, err := f.Q.NamedHost(f.Ctx, "in")
	require.NoError(t, err)
	require.Equal(t, schema.NamedHostRow{ID: in, Zone: "east"}, named)
	claimed, err := f.Q.ClaimedHost(f.Ctx, in)
	require.NoError(t, err)
	require.Equal(t, "east", claimed.Zone)
	zones, err := f.Q.ZoneNames(f.Ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"az-out", "east"}, zones)

	op := f.Server(compute.OpMigrate)
	for host, zone := range map[compute.HostID]string{in: "east", out: "az-out"} {
		moved, err := f.Q.MoveServer(f.Ctx, schema.MoveServerParams{
			Flavor: compute.Flavor{ID: "1", VCPUs: 1, MemoryMB: 512, RootGB: 1}, RequiredTraits: []string{}, ForbiddenTraits: []string{}, HostID: &host, ID: op.ServerID, OperationID: op.ID,
		})
		require.NoError(t, err)
		require.Equal(t, int64(1), moved)
		row, err := f.Q.GetServer(f.Ctx, op.ServerID)
		require.NoError(t, err)
		require.Equal(t, zone, row.AvailabilityZone)
	}
}
