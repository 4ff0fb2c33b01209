package agent_test

import (
	"context"
	"crypto/x509"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/worker/agent"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// keeper is a host that keeps a key of a server, and what it is asked.
type keeper struct {
	compute.Agent
	server  compute.ServerID
	id      compute.SecretID
	granted func(of compute.Arrival, to *x509.Certificate) ([]byte, error)
	serials []string // of its certificates that are good, as the gateway says
	sum     []byte   // of its key, as the gateway says
	value   string   // what it hands on
	log     logged
}

const keptValue = "the passphrase of a running guest"

func newKeeper(t *testing.T, a *pki.Authority) *keeper {
	t.Helper()
	k := &keeper{
		Agent: compute.Agent{Host: compute.HostID{UUID: uuid.New()}, Name: "from"}, server: compute.ServerID{UUID: uuid.New()}, id: compute.SecretID{UUID: uuid.New()},
	}
	own, err := a.Process(pki.HostName(k.Host))
	require.NoError(t, err)
	k.serials, k.value = []string{own.Cert().SerialNumber.Text(16)}, keptValue
	k.sum, err = secret.New([]byte(keptValue)).Sum()
	require.NoError(t, err)
	k.URL = serve(t, own, agent.Server{Logger: slog.New(slog.NewTextHandler(&k.log, nil)), Kept: &agent.Kept{
		Grants: func(_ context.Context, of compute.Arrival, to *x509.Certificate) ([]byte, error) {
			return k.granted(of, to)
		},
		Passphrase: func(server compute.ServerID, id compute.SecretID) (*secret.Passphrase, error) {
			if server != k.server || id != k.id {
				return nil, compute.Errorf(compute.NotFound, "not kept")
			}
			return secret.New([]byte(k.value)), nil
		},
		Secrets: func(_ context.Context, server compute.ServerID) ([]compute.SecretID, error) {
			if server != k.server {
				return nil, nil
			}
			return []compute.SecretID{k.id}, nil
		},
	}}.Handler())
	return k
}

// reader is a host that reads passphrases.
type reader struct {
	agent.HandedKeys
	cert *x509.Certificate
	keys pki.Keys
}

func newReader(t *testing.T, a *pki.Authority, from *keeper) *reader {
	t.Helper()
	id := compute.HostID{UUID: uuid.New()}
	own, err := a.Process(pki.HostName(id))
	require.NoError(t, err)
	keys, err := pki.GenerateKeys()
	require.NoError(t, err)
	return &reader{cert: own.Cert(), keys: keys, HandedKeys: agent.HandedKeys{
		KeySource: nobodys{}, Client: agent.Client{Identity: own}, Host: id,
		From: func(_ context.Context, _ compute.ServerID, id compute.SecretID) (gateway.Handed, error) {
			out := gateway.Handed{Operation: "req-1", From: from.Agent, Serials: from.serials}
			if id == from.id {
				out.Sum = from.sum
			}
			return out, nil
		},
		Open: func(bound string, _ compute.SecretID, sealed []byte) (*secret.Passphrase, error) {
			value, err := keys.Open(bound, sealed)
			if err != nil {
				return nil, compute.Errorf(compute.Corrupt, "it was sealed to another host's key, or for something else")
			}
			return secret.New(value), nil
		},
	}}
}

// nobodys is a key manager that lets nobody read.
type nobodys struct{}

func (nobodys) Passphrase(context.Context, compute.Credential, compute.SecretID) (*secret.Passphrase, error) {
	return nil, compute.Errorf(compute.Forbidden, "the key manager was asked")
}

// read reads a key as an activity of an operation on a server does.
func (r *reader) read(t *testing.T, server compute.ServerID, cred compute.Credential, id compute.SecretID) (value string, failure error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	flow := suite.NewTestWorkflowEnvironment()
	flow.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "server/" + server.String()})
	flow.RegisterActivityWithOptions(func(ctx context.Context) error {
		p, err := r.Passphrase(ctx, cred, id)
		if failure = err; err != nil {
			return nil // it is the test's to look at
		}
		defer p.Wipe()
		return p.Use(func(v []byte) error { value = string(v); return nil })
	}, activity.RegisterOptions{Name: "read"})
	flow.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, "read").Get(ctx, nil)
	})
	require.NoError(t, flow.GetWorkflowError())
	return value, failure
}

// TPM-20, H1: the host that a running server goes to has its keys of the host that keeps them, sealed to
// its own key, and logged; a host whose certificate somebody stole, the api, and whoever has a key that
// was meant for another host get nothing, and that is logged, too.
func TestH1KeysOfAMovingServer(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from := newKeeper(t, a)
	to, thief := newReader(t, a, from), newReader(t, a, from)
	from.granted = func(of compute.Arrival, cert *x509.Certificate) ([]byte, error) {
		if of.Operation != "req-1" || !cert.Equal(to.cert) {
			return nil, compute.Errorf(compute.Forbidden, "no operation moves it there")
		}
		return to.keys.Seal.PublicKey().Bytes(), nil
	}
	value, err := to.read(t, from.server, compute.KeptCredential(), from.id)
	require.NoError(t, err)
	require.Equal(t, keptValue, value)
	lines := from.log.take("handed a key to the host that a server goes to")
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], from.id.String())
	require.NotContains(t, lines[0], keptValue)

	for name, c := range map[string]struct {
		by     *reader
		server compute.ServerID
		cred   compute.Credential
		id     compute.SecretID
		kind   compute.Kind
	}{
		"a stolen certificate":    {thief, from.server, compute.KeptCredential(), from.id, compute.Forbidden},
		"a key that is not kept":  {to, from.server, compute.KeptCredential(), compute.SecretID{UUID: uuid.New()}, compute.NotFound},
		"of another server":       {to, compute.ServerID{UUID: uuid.New()}, compute.KeptCredential(), from.id, compute.NotFound},
		"with somebody's own":     {to, from.server, compute.Credential{ID: uuid.New()}, from.id, compute.Forbidden},
		"with strongroom's login": {to, from.server, compute.DeploymentCredential(), from.id, compute.Forbidden},
	} {
		_, err := c.by.read(t, c.server, c.cred, c.id)
		require.Equal(t, c.kind, compute.KindOf(err), "%s: %v", name, err)
	}
	require.NotEmpty(t, from.log.take("refused to hand on a key"))
	_, err = to.Passphrase(t.Context(), compute.KeptCredential(), from.id)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "no operation asks: %v", err)

	// A host whose certificate was revoked is asked nothing: who shows it may have stolen it.
	good := from.serials
	for _, from.serials = range [][]string{nil, {to.cert.SerialNumber.Text(16)}} {
		from.log.take("")
		_, err = to.read(t, from.server, compute.KeptCredential(), from.id)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "was revoked")
		require.NotContains(t, err.Error(), from.URL, "users read it")
		require.Empty(t, from.log.take("handed"), "it was asked nothing")
	}
	from.serials = good

	// The gateway's word is for the host that has the certificate: what is sealed to one is of no use to another.
	from.granted = func(compute.Arrival, *x509.Certificate) ([]byte, error) { return to.keys.Seal.PublicKey().Bytes(), nil }
	_, err = thief.read(t, from.server, compute.KeptCredential(), from.id)
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)

	api, err := a.Process(pki.API)
	require.NoError(t, err)
	asAPI := *to
	asAPI.Client.Identity = api
	_, err = asAPI.read(t, from.server, compute.KeptCredential(), from.id)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)

	// Which keys are kept, without the keys, is for the api alone.
	kept, err := asAPI.Kept(t.Context(), from.Host, from.URL, from.server)
	require.NoError(t, err)
	require.Equal(t, []compute.SecretID{from.id}, kept)
	kept, err = asAPI.Kept(t.Context(), from.Host, from.URL, compute.ServerID{UUID: uuid.New()})
	require.NoError(t, err)
	require.Empty(t, kept)
	_, err = to.Kept(t.Context(), from.Host, from.URL, from.server)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	_, err = asAPI.Kept(t.Context(), compute.HostID{UUID: uuid.New()}, from.URL, from.server)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "another host answers: %v", err)
}

// A host that hands on a key of its own choosing, or whoever answers in its place, is told from one that hands on what the key manager
// has: a disk that is made with the liar's key would be his to read, and its owner's no more.
func TestH1AHostThatHandsOnAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from := newKeeper(t, a)
	to := newReader(t, a, from)
	from.granted = func(compute.Arrival, *x509.Certificate) ([]byte, error) { return to.keys.Seal.PublicKey().Bytes(), nil }
	read := func() error {
		value, err := to.read(t, from.server, compute.KeptCredential(), from.id)
		require.Equal(t, err == nil, value == keptValue)
		return err
	}
	require.NoError(t, read())
	for _, from.value = range []string{"", keptValue + "x", "a key that the liar knows"} {
		err := read()
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "host from handed on")
		require.NotContains(t, err.Error(), keptValue)
	}
	from.value = keptValue
	for _, from.sum = range [][]byte{nil, {}} {
		err := read()
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "what the key manager has is not known: %v", err)
	}
	for _, from.sum = range [][]byte{make([]byte, 8), make([]byte, 64)} {
		require.Equal(t, compute.Corrupt, compute.KindOf(read()), "no sum of anything")
	}
}

// A host that keeps no keys says so, and hands none on.
func TestAHostThatKeepsNoKeys(t *testing.T) {
	t.Parallel()
	a := authority(t)
	from := newKeeper(t, a)
	own, err := a.Process(pki.HostName(from.Host))
	require.NoError(t, err)
	from.URL = serve(t, own, agent.Server{Logger: slog.New(slog.DiscardHandler)}.Handler())
	from.serials = []string{own.Cert().SerialNumber.Text(16)}
	to := newReader(t, a, from)
	_, err = to.read(t, from.server, compute.KeptCredential(), from.id)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	api, err := a.Process(pki.API)
	require.NoError(t, err)
	kept, err := agent.Client{Identity: api}.Kept(t.Context(), from.Host, from.URL, from.server)
	require.NoError(t, err)
	require.Empty(t, kept)
}
