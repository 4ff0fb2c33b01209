package placement_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/compute"
	"strongroom/schema"
)

// aggregate makes an aggregate with hosts.
func (b *bundle) aggregate(q *schema.Queries, metadata map[string]string, hosts ...compute.HostID) {
	b.t.Helper()
	made, err := q.InsertAggregate(b.Ctx, schema.InsertAggregateParams{UUID: uuid.New(), Name: uuid.NewString(), Metadata: metadata})
	require.NoError(b.t, err)
	for _, host := range hosts {
		rows, err := q.AddAggregateHost(b.Ctx, schema.AddAggregateHostParams{AggregateNumber: made.Number, HostID: host})
		require.NoError(b.t, err)
		require.Equal(b.t, int64(1), rows)
	}
}

// What aggregates say decides about the host, and their zone is the server's.
func TestAClaimGoesByAggregates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	named := map[string]compute.HostID{}
	for i, name := range []string{"plain", "zoned", "theirs", "fast", "special"} {
		named[name] = b.Host(name, 64, int32(1<<20-i)) // the first one is the best
	}
	b.aggregate(b.Q, map[string]string{"availability_zone": "east", "color": "red"}, named["zoned"])
	b.aggregate(b.Q, map[string]string{"filter_tenant_id": "q,r", "color": "blue"}, named["theirs"], named["fast"])
	b.aggregate(b.Q, map[string]string{"ssd": "true", "filter_tenant_id": "s"}, named["fast"])
	b.aggregate(b.Q, map[string]string{"trait:T_LUKS": "required", "trait:CUSTOM_SPECIAL": "required"}, named["special"])
	b.Exec("UPDATE hosts SET traits = traits || '{CUSTOM_SPECIAL}' WHERE name IN ('plain', 'special')")
	for host, change := range map[string]func(*compute.Server){
		"plain":   func(*compute.Server) {},
		"zoned":   func(s *compute.Server) { s.System = map[string]string{compute.SystemPinnedZone: "east"} },
		"theirs":  func(s *compute.Server) { s.ProjectID, s.Flavor.ExtraSpecs = "r", specs("color", "<in> bl") },
		"fast":    func(s *compute.Server) { s.ProjectID, s.Flavor.ExtraSpecs = "s", specs("ssd", "s== true") },
		"special": func(s *compute.Server) { s.Traits = append(s.Traits, "CUSTOM_SPECIAL") },
		"":        func(s *compute.Server) { s.Flavor.ExtraSpecs = specs("ssd", "true") }, // of another project
	} {
		in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
		change(&in.Plan)
		if host == "special" {
			in.Not = []compute.HostID{named["plain"]}
		}
		if host == "" {
			b.noHost(in)
			continue
		}
		zone := "az-" + host
		if host == "zoned" {
			zone = "east"
		}
		got, err := b.claim(in)
		require.NoError(t, err)
		require.Equal(t, placement.ClaimResult{Host: named[host], Name: host, Format: compute.DefaultDiskFormat, Zone: zone}, got)
		require.Equal(t, zone, b.row(in.OperationInput).AvailabilityZone)
		again, err := b.claim(in)
		require.NoError(t, err)
		require.Equal(t, got, again, "that it holds")
	}
	in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
	in.Plan.System = map[string]string{compute.SystemPinnedZone: "az-zoned"} // which its host reports, and is not in
	b.noHost(in)
}

func specs(key, value string) map[string]string {
	return map[string]string{"aggregate_instance_extra_specs:" + key: value}
}

// An aggregate that a host comes into when a claim has just chosen it: the claim goes by it all the same.
func TestAClaimSeesTheAggregatesOfItsOwnTransaction(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string]map[string]string{
		"a zone":            {"availability_zone": "west"},
		"of another":        {"filter_tenant_id": "q"},
		"for another trait": {"trait:CUSTOM_A": "required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			host := b.Host("h1", 64, 1<<20)
			in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
			in.Plan.System = map[string]string{compute.SystemPinnedZone: "az-h1"}
			b.refusedAfter(host, in, func(tx pgx.Tx) { b.aggregate(b.Q.WithTx(tx), metadata, host) })
		})
	}
}

// statements counts what a pool is asked.
type statements struct{ atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if strings.Contains(query.SQL, "-- name: ") {
		s.Add(1)
	}
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A claim asks as much of the database whether it chooses among two hosts or a hundred, each in an aggregate.
func TestAClaimAsksNothingForEachHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := &statements{}
	config := b.DB.Config()
	config.ConnConfig.Tracer = asked
	pool, err := pgxpool.NewWithConfig(b.Ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b.Pool = pool
	hosts := 0
	count := func(upTo int) int64 {
		for ; hosts < upTo; hosts++ {
			b.aggregate(b.Q, map[string]string{"ssd": "true"}, b.Host(fmt.Sprintf("h%d", hosts), 64, 1<<20))
		}
		in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
		in.Plan.Flavor.ExtraSpecs = specs("ssd", "true")
		asked.Store(0)
		_, err := b.claim(in)
		require.NoError(t, err)
		return asked.Load()
	}
	few := count(2)
	require.Positive(t, few)
	require.Equal(t, few, count(100))
}
