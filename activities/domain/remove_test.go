package domain_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/activities/secret"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

func ofDomain(server compute.ServerID) compute.Removal {
	return removal(server, compute.ThingDomain, compute.InstanceName(server))
}

func ofSecret(server compute.ServerID, id compute.SecretID) compute.Removal {
	return removal(server, compute.ThingHypervisorSecret, id.String())
}

func ofFile(server compute.ServerID, file string) compute.Removal {
	return removal(server, compute.ThingDiskFile, server.String()+"/"+file)
}

func removal(server compute.ServerID, kind compute.ThingKind, name string) compute.Removal {
	return compute.Removal{Thing: compute.Thing{Kind: kind, Name: name, Owner: compute.ServerOwner(server)}}
}

// seen is what the audit sees of the host's libvirt.
func (h *host) seen(t *testing.T) []compute.Seen {
	t.Helper()
	got, err := h.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	require.Equal(t, []string{compute.LookedAll}, got.Looked)
	require.Empty(t, got.Next)
	return got.Seen
}

func (h *host) removeTPM(t *testing.T, s compute.Server) {
	t.Helper()
	states := &tpm.Activities{SwtpmDir: h.daemon.SwtpmDir()}
	require.NoError(t, states.Remove(t.Context(), removal(s.ID, compute.ThingTPMState, s.ID.String())))
}

// That a domain runs is a thing: its removal leaves it off, and there (A2).
func TestRemoveStopsARunningDomain(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	running := removal(s.ID, compute.ThingRunningDomain, compute.InstanceName(s.ID))
	require.NoError(t, h.Remove(t.Context(), running), "it is not there")
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, h.Remove(t.Context(), running))
		state, err := h.Client.Power(t.Context(), s.ID)
		require.NoError(t, err)
		require.Equal(t, compute.PowerShutdown, state)
		require.Zero(t, qemus(t, s))
		require.Contains(t, h.seen(t), compute.Seen{Kind: compute.ThingDomain, Name: compute.InstanceName(s.ID)})
	}
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err, "it can be started again")
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
}

// power gives a server's power state.
func (h *host) power(t *testing.T, s compute.Server) compute.PowerState {
	t.Helper()
	state, err := h.Client.Power(t.Context(), s.ID)
	require.NoError(t, err)
	return state
}

// What waited to be stopped may have been started again meanwhile, by the server's owner.
func TestRemoveLeavesADomainThatWasStartedAgain(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	first, second := compute.OperationID("req-1"), compute.OperationID("req-2")
	waited := removal(s.ID, compute.ThingRunningDomain, compute.InstanceName(s.ID))
	waited.Thing.State, waited.Thing.Operation = compute.ThingWaiting, first

	for _, op := range []compute.OperationID{first, second, second} { // the second finds it running
		_, err := h.Start(t.Context(), domain.StartInput{Server: s, Operation: op})
		require.NoError(t, err)
	}
	require.NoError(t, h.Remove(t.Context(), waited))
	require.Equal(t, compute.PowerRunning, h.power(t, s))

	waited.Thing.Operation = second
	require.NoError(t, h.Remove(t.Context(), waited))
	require.Equal(t, compute.PowerShutdown, h.power(t, s))

	_, err := h.Start(t.Context(), domain.StartInput{Server: s, Operation: first}) // started afresh
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context(), waited))
	require.Equal(t, compute.PowerRunning, h.power(t, s))
	its := waited
	its.Thing.State = compute.ThingIntended
	require.NoError(t, h.Remove(t.Context(), its))
	require.Equal(t, compute.PowerShutdown, h.power(t, s), "who has the server stops it, whoever started it")
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	require.NoError(t, h.Remove(t.Context(), waited), "it is not there")
}

// A domain that was started since its removal waits stays, whatever operation started it
// before: the server came back to this host.
func TestRemoveLeavesADomainThatCameBack(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	since := time.Now()
	waited := ofDomain(s.ID)
	waited.Thing.State, waited.Thing.Since, waited.Thing.Operation = compute.ThingWaiting, since, "req-1"
	start := func(op compute.OperationID, began time.Time) {
		t.Helper()
		_, err := h.Start(t.Context(), domain.StartInput{Server: s, Operation: op, Began: began})
		require.NoError(t, err)
	}
	start("req-2", since.Add(-time.Second))
	require.NoError(t, h.Remove(t.Context(), waited))
	require.Equal(t, compute.PowerNone, h.power(t, s))

	start("req-3", since.Add(-time.Second))
	start("req-4", since.Add(time.Second)) // it finds it running
	require.NoError(t, h.Remove(t.Context(), waited))
	require.Equal(t, compute.PowerRunning, h.power(t, s))
	log := ofFile(s.ID, compute.ConsoleLogFile)
	log.Thing.State, log.Thing.Since = compute.ThingWaiting, since
	require.NoError(t, h.disks.Remove(t.Context(), log))
	require.FileExists(t, filepath.Join(h.InstancesDir, s.ID.String(), compute.ConsoleLogFile))

	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)), "who has the server removes it")
	require.Equal(t, compute.PowerNone, h.power(t, s))
}

// slowKeys answers when it is let go.
type slowKeys struct {
	domain.KeySource
	asked chan struct{}
	let   chan struct{}
}

func (k slowKeys) Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	k.asked <- struct{}{}
	<-k.let
	return k.KeySource.Passphrase(ctx, cred, id)
}

// A secret that waited to be taken back is not taken from under a start that needs it.
func TestRemoveOfASecretWaitsForAStart(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, true, nil)
	h.disksOf(t, s)
	slow := slowKeys{KeySource: h.Keys, asked: make(chan struct{}, len(s.Disks)), let: make(chan struct{})}
	h.Keys = slow
	started := make(chan error, 1)
	go func() {
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		started <- err
	}()
	<-slow.asked
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.Remove(ctx, ofSecret(s.ID, *s.Disks[0].Secret)), context.DeadlineExceeded)
	close(slow.let)
	require.NoError(t, h.Remove(t.Context(), ofSecret(s.ID, *s.Disks[0].Secret)))
	require.NoError(t, <-started)
	require.Equal(t, compute.PowerRunning, h.power(t, s))
	require.Empty(t, h.secrets(t))
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
}

func TestRemoveRefuses(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	server, other := compute.ServerID{UUID: uuid.New()}, compute.ServerID{UUID: uuid.New()}
	shares := removal(server, compute.ThingDomain, compute.InstanceName(server))
	shares.Thing.Owner.Kind = compute.OwnerShare
	for name, in := range map[string]compute.Removal{
		"another's that runs":     removal(server, compute.ThingRunningDomain, compute.InstanceName(other)),
		"another server's domain": removal(server, compute.ThingDomain, compute.InstanceName(other)),
		"another server's port":   removal(server, compute.ThingPluggedPort, compute.PortUse(compute.PortID{UUID: uuid.New()}, other)),
		"no port":                 removal(server, compute.ThingPluggedPort, server.String()),
		"no id of a secret":       removal(server, compute.ThingHypervisorSecret, "secret"),
		"another kind":            removal(server, compute.ThingDiskFile, server.String()+"/disk"),
		"no server":               removal(compute.ServerID{}, compute.ThingDomain, compute.InstanceName(compute.ServerID{})),
		"another owner":           shares,
	} {
		err := h.Remove(t.Context(), in)
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
	}
	for range 2 {
		require.NoError(t, h.Remove(t.Context(), ofDomain(server)), "what is not there")
		require.NoError(t, h.Remove(t.Context(), ofSecret(server, compute.SecretID{UUID: uuid.New()})))
	}
}
