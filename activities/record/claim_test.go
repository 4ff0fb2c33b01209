package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
)

// plan is a server that wants a number of vCPUs and half a GiB for each.
func plan(vcpus int) compute.Server {
	return compute.Server{Flavor: compute.Flavor{VCPUs: vcpus, MemoryMB: 512 * vcpus, RootGB: 1}, Traits: []string{"T_LUKS"}}
}

// claim tries again while the database says that it is busy, as Temporal does.
func (b *bundle) claim(in record.ClaimInput) (record.ClaimResult, error) {
	for {
		got, err := b.Claim(b.ctx, in)
		if !compute.Is(err, compute.Unavailable) {
			return got, err
		}
	}
}

// TestClaimsAtOnceFillTheHostsAndNoMore: of 50, as many find a place as there
// are places.
func TestClaimsAtOnceFillTheHostsAndNoMore(t *testing.T) {
	t.Parallel()
	for name, hosts := range map[string]map[string]int32{
		"room for all":     {"h1": 64},
		"one host":         {"h1": 20},
		"two hosts":        {"h1": 15, "h2": 22},
		"four small hosts": {"h1": 3, "h2": 5, "h3": 4, "h4": 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var places int32
			for host, vcpus := range hosts {
				b.host(host, vcpus, 1<<20)
				places += vcpus
			}
			claims := make([]record.ClaimInput, 50)
			for i := range claims {
				claims[i] = record.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
			}
			results := make([]record.ClaimResult, len(claims))
			placed := 0
			for i, err := range atOnce(len(claims), func(i int) (err error) { results[i], err = b.claim(claims[i]); return err }) {
				if err == nil {
					placed++
					row := b.row(claims[i].OperationInput)
					require.Equal(t, results[i].Host, *row.HostID)
					require.Equal(t, "az-"+results[i].Name, row.AvailabilityZone)
					continue
				}
				require.True(t, compute.Is(err, compute.NoHost), "%v", err)
				require.Equal(t, compute.NoValidHost, err.Error())
			}
			require.Equal(t, min(50, int(places)), placed)
			rows, err := b.q.HostsWithUse(b.ctx)
			require.NoError(t, err)
			for _, row := range rows {
				require.LessOrEqual(t, row.VcpusUsed, int64(row.VCPUs), row.Name)
			}
		})
	}
}

// TestBigAndSmallAtOnce: claims that do not fit everywhere try the hosts in
// turn; none waits for another one for ever, and none is turned away for long.
func TestBigAndSmallAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.host("h1", 12, 1<<20)
	b.host("h2", 12, 1<<20)
	claims := make([]record.ClaimInput, 24)
	for i := range claims {
		claims[i] = record.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1 + i%3)}
	}
	for _, err := range atOnce(len(claims), func(i int) error { _, err := b.Claim(b.ctx, claims[i]); return err }) {
		require.True(t, err == nil || compute.Is(err, compute.NoHost), "%v", err)
	}
	rows, err := b.q.HostsWithUse(b.ctx)
	require.NoError(t, err)
	for _, row := range rows {
		require.Equal(t, int64(row.VCPUs), row.VcpusUsed, "small ones fill what is left")
	}
}

func TestAClaimIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.host("h1", 4, 1<<20)
	in := record.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(4)}
	first, err := b.Claim(b.ctx, in)
	require.NoError(t, err)
	before := b.dump("claims")
	b.host("h2", 64, 1<<20) // a better one by now
	for _, err := range atOnce(6, func(int) error {
		again, err := b.Claim(b.ctx, in)
		if err == nil && again != first {
			t.Errorf("%v is not %v", again, first)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, before, b.dump("claims"))
}

// TestClaimsOfOneServerAtOnce: two attempts of one activity end on one host.
func TestClaimsOfOneServerAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.host("h1", 64, 1<<20)
	b.host("h2", 64, 1<<20)
	for range 20 {
		in := record.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
		results := make([]record.ClaimResult, 4)
		for _, err := range atOnce(4, func(i int) (err error) { results[i], err = b.Claim(b.ctx, in); return err }) {
			require.NoError(t, err)
		}
		for _, r := range results {
			require.Equal(t, *b.row(in.OperationInput).HostID, r.Host)
		}
	}
}

func TestAClaimMovesFromAHostThatWasTriedInVain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.host("h1", 4, 1<<20)
	in := record.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(4)}
	first, err := b.Claim(b.ctx, in)
	require.NoError(t, err)
	in.Not = []compute.HostID{first.Host}
	_, err = b.Claim(b.ctx, in)
	require.True(t, compute.Is(err, compute.NoHost), "%v", err)

	second := b.host("h2", 4, 1<<20)
	for range 2 {
		got, err := b.Claim(b.ctx, in)
		require.NoError(t, err)
		require.Equal(t, record.ClaimResult{Host: second, Name: "h2"}, got)
	}
	use, err := b.q.HostUse(b.ctx, first.Host)
	require.NoError(t, err)
	require.Zero(t, use.VCPUs)
}

func TestUnclaimGivesBackOnlyItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.host("h1", 8, 1<<20)
	mine := record.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
	other := record.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
	for _, in := range []record.ClaimInput{mine, other} {
		_, err := b.Claim(b.ctx, in)
		require.NoError(t, err)
	}
	// A later operation of the same server has no claim of its own to give back.
	later := b.supersede(mine.OperationInput, compute.OpStop, nil)
	before := b.dump("claims")
	require.NoError(t, b.Unclaim(b.ctx, later))
	require.Equal(t, before, b.dump("claims"))

	for range 2 {
		require.NoError(t, b.Unclaim(b.ctx, other.OperationInput))
	}
	require.Nil(t, b.row(other.OperationInput).HostID)
	_, err := b.q.GetClaim(b.ctx, mine.Server)
	require.NoError(t, err)
	_, err = b.q.GetClaim(b.ctx, other.Server)
	require.Error(t, err)
}

func TestClaimLooksAtTheHosts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"down":          "UPDATE hosts SET last_seen = now() - interval '5 minutes'",
		"forced down":   "UPDATE hosts SET forced_down = true",
		"disabled":      "UPDATE hosts SET disabled = true",
		"lacks a trait": "UPDATE hosts SET traits = '{}'",
		"too small":     "UPDATE hosts SET memory_mb = 511",
		"reserved":      "UPDATE hosts SET memory_mb = 1023, reserved_memory_mb = 512",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.host("h1", 8, 1<<20)
			in := record.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
			_, err := b.Pool.Exec(b.ctx, change)
			require.NoError(t, err)
			before := b.dump(everything...)
			_, err = b.Claim(b.ctx, in)
			require.True(t, compute.Is(err, compute.NoHost), "%v", err)
			require.Equal(t, before, b.dump(everything...))
		})
	}
}
