package placement_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// bundle is a database of its own with the activities on it.
type bundle struct {
	*placement.Activities
	*schematest.Fixture
	t *testing.T
}

func setup(t *testing.T) *bundle {
	t.Helper()
	f := schematest.NewFixture(t)
	return &bundle{Activities: &placement.Activities{Pool: f.DB}, Fixture: f, t: t}
}

// server adds a server that an accepted operation has.
func (b *bundle) server(kind compute.OperationKind) durable.OperationInput {
	b.t.Helper()
	op := b.Server(kind)
	return durable.OperationInput{Operation: op.ID, Server: op.ServerID}
}

func (b *bundle) supersede(in durable.OperationInput, kind compute.OperationKind) durable.OperationInput {
	b.t.Helper()
	op := b.Supersede(in.Server, kind, nil)
	return durable.OperationInput{Operation: op.ID, Server: op.ServerID}
}

func (b *bundle) row(in durable.OperationInput) schema.Server {
	b.t.Helper()
	row, err := b.Q.GetServer(b.Ctx, in.Server)
	require.NoError(b.t, err)
	return row
}

func (b *bundle) claims(in durable.OperationInput) int {
	b.t.Helper()
	return b.CountRows("SELECT count(*) FROM claims WHERE server_id = $1", in.Server)
}

// plan is a server that wants a number of vCPUs and half a GiB for each.
func plan(vcpus int) compute.Server {
	return compute.Server{Flavor: compute.Flavor{VCPUs: vcpus, MemoryMB: 512 * vcpus, RootGB: 1}, Traits: []string{"T_LUKS"}}
}

// claim tries again while the database says that it is busy, as Temporal does.
func (b *bundle) claim(in placement.ClaimInput) (placement.ClaimResult, error) {
	for {
		got, err := b.Claim(b.Ctx, in)
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
				b.Host(host, vcpus, 1<<20)
				places += vcpus
			}
			claims := make([]placement.ClaimInput, 50)
			for i := range claims {
				claims[i] = placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
			}
			results := make([]placement.ClaimResult, len(claims))
			placed := 0
			for i, err := range schematest.AtOnce(len(claims), func(i int) (err error) { results[i], err = b.claim(claims[i]); return err }) {
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
			rows, err := b.Q.HostsWithUse(b.Ctx, nil)
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
	b.Host("h1", 12, 1<<20)
	b.Host("h2", 12, 1<<20)
	claims := make([]placement.ClaimInput, 24)
	for i := range claims {
		claims[i] = placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1 + i%3)}
	}
	smallest := 1 << 20 // of those that were turned away
	for i, err := range schematest.AtOnce(len(claims), func(i int) error { _, err := b.Claim(b.Ctx, claims[i]); return err }) {
		if err != nil {
			require.True(t, compute.Is(err, compute.NoHost), "%v", err)
			smallest = min(smallest, claims[i].Plan.Resources().VCPUs)
		}
	}
	rows, err := b.Q.HostsWithUse(b.Ctx, nil)
	require.NoError(t, err)
	for _, row := range rows {
		require.Less(t, int64(row.VCPUs)-row.VcpusUsed, int64(smallest), "what fits is not turned away")
	}
}

func TestAClaimIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Host("h1", 4, 1<<20)
	in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(4)}
	first, err := b.Claim(b.Ctx, in)
	require.NoError(t, err)
	before := b.Dump("claims")
	b.Host("h2", 64, 1<<20) // a better one by now
	for _, err := range schematest.AtOnce(6, func(int) error {
		again, err := b.Claim(b.Ctx, in)
		if err == nil && again != first {
			t.Errorf("%v is not %v", again, first)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, before, b.Dump("claims"))
}

// TestClaimsOfOneServerAtOnce: two attempts of one activity end on one host.
func TestClaimsOfOneServerAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Host("h1", 64, 1<<20)
	b.Host("h2", 64, 1<<20)
	for range 20 {
		in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
		results := make([]placement.ClaimResult, 4)
		for _, err := range schematest.AtOnce(4, func(i int) (err error) { results[i], err = b.Claim(b.Ctx, in); return err }) {
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
	b.Host("h1", 4, 1<<20)
	in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(4)}
	first, err := b.Claim(b.Ctx, in)
	require.NoError(t, err)
	in.Not = []compute.HostID{first.Host}
	_, err = b.Claim(b.Ctx, in)
	require.True(t, compute.Is(err, compute.NoHost), "%v", err)

	second := b.Host("h2", 4, 1<<20)
	for range 2 {
		got, err := b.Claim(b.Ctx, in)
		require.NoError(t, err)
		require.Equal(t, placement.ClaimResult{Host: second, Name: "h2", Format: compute.DefaultDiskFormat, Zone: "az-h2"}, got)
	}
	use, err := b.Q.HostUse(b.Ctx, first.Host)
	require.NoError(t, err)
	require.Zero(t, use.VCPUs)
}

func TestUnclaimGivesBackOnlyItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Host("h1", 8, 1<<20)
	mine := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
	other := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
	for _, in := range []placement.ClaimInput{mine, other} {
		_, err := b.Claim(b.Ctx, in)
		require.NoError(t, err)
	}
	// A later operation of the same server has no claim of its own to give back.
	later := b.supersede(mine.OperationInput, compute.OpStop)
	before := b.Dump("claims")
	require.NoError(t, b.Unclaim(b.Ctx, later))
	require.Equal(t, before, b.Dump("claims"))

	for range 2 {
		require.NoError(t, b.Unclaim(b.Ctx, other.OperationInput))
	}
	require.Nil(t, b.row(other.OperationInput).HostID)
	require.NotNil(t, b.row(later).HostID, "nor is the server moved from its place")
	require.Equal(t, 1, b.claims(mine.OperationInput))
	require.Zero(t, b.claims(other.OperationInput))
}

// B1: a server that moves has a claim on both hosts, and is where it was until its
// operation decides.
func TestB1AServerThatMovesHasClaimsOnTwoHosts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.Host("h1", 4, 1<<20)
	create := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(4)}
	_, err := b.Claim(b.Ctx, create)
	require.NoError(t, err)
	second := b.Host("h2", 4, 1<<20)
	move := placement.ClaimInput{OperationInput: b.supersede(create.OperationInput, "migrate"), Plan: plan(4), Not: []compute.HostID{first}}
	for range 2 {
		got, err := b.Claim(b.Ctx, move)
		require.NoError(t, err)
		require.Equal(t, second, got.Host)
	}
	require.Equal(t, first, *b.row(move.OperationInput).HostID)
	require.Equal(t, "az-h1", b.row(move.OperationInput).AvailabilityZone)
	rows, err := b.Q.HostsWithUse(b.Ctx, nil)
	require.NoError(t, err)
	for _, row := range rows {
		require.Equal(t, int64(4), row.VcpusUsed, row.Name)
		require.Equal(t, int64(1), row.Servers, row.Name)
	}
	for range 2 {
		require.NoError(t, b.Unclaim(b.Ctx, move.OperationInput))
	}
	require.Equal(t, first, *b.row(move.OperationInput).HostID)
	require.Equal(t, 1, b.claims(move.OperationInput))
}

func TestClaimLooksAtTheHosts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"down":          "UPDATE hosts SET last_seen = now() - interval '5 minutes'",
		"forced down":   "UPDATE hosts SET forced_down = true",
		"given up":      "UPDATE hosts SET forgotten_at = now()",
		"disabled":      "UPDATE hosts SET disabled = true",
		"lacks a trait": "UPDATE hosts SET traits = '{}'",
		"too small":     "UPDATE hosts SET memory_mb = 511",
		"reserved":      "UPDATE hosts SET memory_mb = 1023, reserved_memory_mb = 512",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Host("h1", 8, 1<<20)
			in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
			_, err := b.DB.Exec(b.Ctx, change)
			require.NoError(t, err)
			before := b.Dump(schematest.Everything...)
			_, err = b.Claim(b.Ctx, in)
			require.True(t, compute.Is(err, compute.NoHost), "%v", err)
			require.Equal(t, before, b.Dump(schematest.Everything...))
		})
	}
}

// H1: a host is no candidate from the moment that all of its certificates are revoked, though it has just reported
// itself; it is one again with another certificate.
func TestH1ARevokedHostTakesNoServers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("h1", 8, 1<<20)
	certificate := func(serial string) {
		require.NoError(t, b.Q.AddHostCertificate(b.Ctx, schema.AddHostCertificateParams{
			Serial: serial, HostID: host, HostName: "h1", SealingKey: []byte{}, NotAfter: time.Now().Add(time.Hour),
		}))
	}
	in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
	certificate("first")
	_, err := b.Q.RevokeHost(b.Ctx, "h1")
	require.NoError(t, err)
	_, err = b.Claim(b.Ctx, in)
	require.True(t, compute.Is(err, compute.NoHost), "%v", err)
	require.Zero(t, b.claims(in.OperationInput))
	certificate("second")
	got, err := b.Claim(b.Ctx, in)
	require.NoError(t, err)
	require.Equal(t, host, got.Host)
}

// H8: a network that one host limits to projects is limited on a host whose configuration lacks
// the limit, too, also while the one that has it takes no servers.
func TestH8APrivateNetworkIsPrivateOnEveryHost(t *testing.T) {
	t.Parallel()
	const network = "5c1e0f5e-0c64-4b3c-8f1d-2b64a3a0d001"
	for name, state := range map[string]string{"up": "", "disabled": "disabled = true", "down": "last_seen = now() - interval '1 day'", "forced down": "forced_down = true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			limits, open := b.Host("limits", 8, 1<<20), b.Host("open", 8, 1<<21)
			_, err := b.DB.Exec(b.Ctx, "UPDATE hosts SET networks = ARRAY[$1]", network)
			require.NoError(t, err)
			_, err = b.DB.Exec(b.Ctx, "UPDATE hosts SET network_projects = $2 WHERE id = $1", limits, map[string][]string{strings.ToUpper(network): {"mine"}})
			require.NoError(t, err)
			if state != "" {
				_, err = b.DB.Exec(b.Ctx, "UPDATE hosts SET "+state+" WHERE id = $1", limits)
				require.NoError(t, err)
			}
			of := func(project string) (placement.ClaimResult, error) {
				in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
				in.Plan.ProjectID, in.Plan.Networks = project, []compute.Network{{UUID: network}}
				return b.claim(in)
			}
			_, err = of("another")
			require.True(t, compute.Is(err, compute.NoHost), "%v", err)
			got, err := of("mine")
			require.NoError(t, err)
			require.Equal(t, open, got.Host)

			_, err = b.DB.Exec(b.Ctx, "UPDATE hosts SET forgotten_at = now() WHERE id = $1", limits)
			require.NoError(t, err)
			_, err = of("another")
			require.NoError(t, err, "a host that is forgotten has no say")
		})
	}
}

// H8: a lost host that limits a network to nobody keeps servers off every host, until it is revoked.
func TestH8ARevokedHostLimitsNoNetwork(t *testing.T) {
	t.Parallel()
	const network = "5c1e0f5e-0c64-4b3c-8f1d-2b64a3a0d001"
	b := setup(t)
	lost, sound := b.Host("lost", 8, 1<<20), b.Host("sound", 8, 1<<21)
	b.Exec("UPDATE hosts SET networks = ARRAY[$1]", network)
	b.Exec("UPDATE hosts SET network_projects = $2 WHERE id = $1", lost, map[string][]string{network: {}})
	for serial, host := range map[string]compute.HostID{"1": lost, "2": sound} {
		require.NoError(t, b.Q.AddHostCertificate(b.Ctx, schema.AddHostCertificateParams{
			Serial: serial, HostID: host, HostName: serial, SealingKey: []byte(serial), NotAfter: time.Now().Add(time.Hour),
		}))
	}
	of := func() (placement.ClaimResult, error) {
		in := placement.ClaimInput{OperationInput: b.server(compute.OpCreate), Plan: plan(1)}
		in.Plan.Networks = []compute.Network{{UUID: network}}
		return b.claim(in)
	}
	_, err := of()
	require.True(t, compute.Is(err, compute.NoHost), "%v", err)
	_, err = b.Q.RevokeHost(b.Ctx, lost.String())
	require.NoError(t, err)
	got, err := of()
	require.NoError(t, err)
	require.Equal(t, sound, got.Host)
}

// How other hosts reach a host, for the workflow that has one read of another.
func TestHostAgent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("a", 4, 4096)
	_, err := b.HostAgent(b.Ctx, host)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "it says no address")
	b.Exec("UPDATE hosts SET agent_url = 'https://10.0.0.21:8776' WHERE id = $1", host)
	got, err := b.HostAgent(b.Ctx, host)
	require.NoError(t, err)
	require.Equal(t, compute.Agent{Host: host, Name: "a", URL: "https://10.0.0.21:8776"}, got)
	_, err = b.HostAgent(b.Ctx, compute.HostID{UUID: [16]byte{1}})
	require.Equal(t, compute.Conflict, compute.KindOf(err))
}

// Who looks for why no host takes a server finds it in the log, host by host.
func TestNoHostIsToldInTheLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var log bytes.Buffer
	b.Logger = slog.New(slog.NewTextHandler(&log, nil))
	b.Host("small", 1, 4096)
	away, named := b.Host("away", 8, 8192), b.Host("named", 8, 8192)
	b.Exec("UPDATE hosts SET last_seen = now() - interval '5 minutes' WHERE id = $1", away)
	in := b.server(compute.OpCreate)
	_, err := b.Claim(b.Ctx, placement.ClaimInput{OperationInput: in, Plan: plan(2), Not: []compute.HostID{named}})
	require.True(t, compute.Is(err, compute.NoHost), "%v", err)
	require.Equal(t, compute.NoValidHost, compute.Public(err), "its user is told of no host")
	for _, text := range []string{string(in.Operation), "small: 2 VCPUs wanted, 1 free", "away: last seen 5m0s ago", "named: not among those that the operation may take"} {
		require.Contains(t, log.String(), text)
	}
	_, err = b.Claim(b.Ctx, placement.ClaimInput{OperationInput: in, Plan: plan(2)})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(log.String(), "no host takes a server"))
}
