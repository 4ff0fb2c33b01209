package placement_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/compute"
)

// TPM-39: a host that has the state of the server's vTPM, on the storage of a host that is not asked for it, comes
// before those with more room, and these come before none.
func TestHostsThatHaveTheTPMComeFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost, small, large := b.Host("lost", 8, 1<<20), b.Host("small", 8, 1<<14), b.Host("large", 8, 1<<20)
	b.Exec("UPDATE hosts SET tpm_storage = CASE name WHEN 'large' THEN 'another' ELSE 'one' END, forced_down = name = 'lost'")
	claim := func(vcpus int, of *compute.HostID) compute.HostID {
		got, err := b.claim(placement.ClaimInput{OperationInput: b.server(compute.OpEvacuate), Plan: plan(vcpus), TPMOf: of})
		require.NoError(t, err)
		return got.Host
	}
	require.Equal(t, large, claim(1, nil))
	require.Equal(t, small, claim(5, &lost))
	require.Equal(t, large, claim(4, &lost), "the other one is full")
	b.Exec("UPDATE hosts SET tpm_storage = '' WHERE name = 'lost'")
	require.Equal(t, large, claim(1, &lost), "it shares with none")
}

// TPM-39: while a host that has the state of the server's vTPM does not answer, and could take the server if it did, none is
// claimed that has not got it, unless it was named: the vTPM would be given up for a worker that is restarted.
func TestASilentHostThatHasTheTPMIsWaitedFor(t *testing.T) {
	t.Parallel()
	const silent = "UPDATE hosts SET last_seen = now() - interval '2 minutes' WHERE name = 'peer'"
	for name, c := range map[string]struct {
		arrange      string
		named, tried bool
		refused      bool
	}{
		"is silent": {arrange: silent, refused: true}, "took no work": {tried: true, refused: true}, "another host was named": {arrange: silent, named: true},
		"is dead, its operator says":   {arrange: "UPDATE hosts SET last_seen = now() - interval '2 minutes', forced_down = true WHERE name = 'peer'"},
		"could not take it":            {arrange: "UPDATE hosts SET last_seen = now() - interval '2 minutes', vcpus = 0 WHERE name = 'peer'"},
		"it is the one that is left":   {arrange: "UPDATE hosts SET tpm_storage = 'another' WHERE name = 'peer'"},
		"it shares, and others do not": {arrange: "UPDATE hosts SET last_seen = now() - interval '2 minutes', tpm_storage = '' WHERE name = 'peer'"},
	} {
		b := setup(t)
		lost, peer, other := b.Host("lost", 8, 1<<20), b.Host("peer", 8, 1<<14), b.Host("other", 8, 1<<20)
		b.Exec("UPDATE hosts SET tpm_storage = CASE name WHEN 'other' THEN '' ELSE 'one' END")
		b.Exec("UPDATE hosts SET last_seen = now() - interval '2 minutes' WHERE name = 'lost'") // its watchdog fenced it
		if c.arrange != "" {
			b.Exec(c.arrange)
		}
		in := placement.ClaimInput{OperationInput: b.server(compute.OpEvacuate), Plan: plan(1), TPMOf: &lost, Not: []compute.HostID{lost}}
		if c.named {
			in.Only = &other
		}
		if c.tried {
			in.Not, in.Silent = append(in.Not, peer), []compute.HostID{peer}
		}
		got, err := b.claim(in)
		if !c.refused {
			require.NoError(t, err, name)
			require.Equal(t, other, got.Host, name)
			continue
		}
		require.True(t, compute.Is(err, compute.Conflict), "%s: %v", name, err)
		require.ErrorContains(t, err, "start the worker of peer and try again", name)
		b.Exec("UPDATE hosts SET tpm_storage = 'one' WHERE name = 'other'")
		got, err = b.claim(in)
		require.NoError(t, err, name)
		require.Equal(t, other, got.Host, "%s: another one has it, too", name)
	}
}

// TPM-39: hosts share the storage of TPM states that say the same id. One that has said none shares
// it with nobody.
func TestTPMPeers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, other := b.Host("a", 1, 1), b.Host("b", 1, 1)
	b.Host("c", 1, 1)
	silent := b.Host("d", 1, 1)
	b.Exec("UPDATE hosts SET tpm_storage = CASE name WHEN 'c' THEN 'another' WHEN 'd' THEN '' ELSE 'one' END")
	for of, want := range map[compute.HostID][]compute.HostID{one: {other}, other: {one}, silent: {}} {
		got, err := b.TPMPeers(b.Ctx, of)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
