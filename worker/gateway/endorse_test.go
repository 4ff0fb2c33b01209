package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/worker/pki"
)

// withEndorser is a cloud whose gateway certifies endorsement keys.
func withEndorser(t *testing.T) *cloud {
	t.Helper()
	c := newCloud(t)
	var err error
	c.endorser, err = pki.EnsureEndorser(filepath.Join(t.TempDir(), "endorser"))
	require.NoError(t, err)
	own, err := c.authority.Process(pki.Gateway)
	require.NoError(t, err)
	c.url = c.serve(own)
	return c
}

func endorsementKey(t *testing.T) (key *ecdsa.PrivateKey, der []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	return key, der
}

// H1: endorsement keys are certified for the vTPM that an operation makes on the host that asks, while it runs, and for nothing
// else. What a certificate says of the server is the record's; another attempt's takes the place of the one before.
func TestEndorsement(t *testing.T) {
	t.Parallel()
	c := withEndorser(t)
	h, stranger := c.enrolled("here"), c.enrolled("there")
	op := h.server()
	c.Exec(`UPDATE servers SET tpm = '{"version": "2.0", "model": "tpm-crb", "security": "user"}' WHERE id = $1`, op.ServerID)
	c.Exec("UPDATE operations SET kind = 'create' WHERE id = $1", op.ID)
	intend := func(on *host, by compute.OperationID, state compute.ThingState) {
		c.Exec("DELETE FROM ledger")
		for _, kind := range []string{"running_domain", "tpm_state"} {
			c.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
				VALUES (gen_random_uuid(), $5, $1::text, $2::text, '', 'server', $2::uuid, $3, gen_random_uuid(), 'p', 'u', $4)`,
				on.id.String(), op.ServerID.String(), by, state, kind)
		}
	}
	key, der := endorsementKey(t)
	ask := func(by *host, server compute.ServerID, of compute.OperationID, keys ...[]byte) compute.Kind {
		got, err := by.client.Endorse(c.Ctx, server, of, keys)
		if err == nil {
			require.Len(t, got, len(keys))
		}
		return compute.KindOf(err)
	}
	other := h.server()
	intend(h, op.ID, compute.ThingReleased)
	require.Equal(t, compute.Forbidden, ask(h, op.ServerID, op.ID, der), "it is not started")
	intend(h, other.ID, compute.ThingIntended)
	require.Equal(t, compute.Forbidden, ask(h, op.ServerID, op.ID, der), "another operation starts it")
	intend(stranger, op.ID, compute.ThingIntended)
	require.Equal(t, compute.Forbidden, ask(h, op.ServerID, op.ID, der), "the host that it leaves does not start it")
	intend(h, op.ID, compute.ThingIntended)
	for what, kind := range map[string]compute.Kind{
		"another host":      ask(stranger, op.ServerID, op.ID, der),
		"another operation": ask(h, op.ServerID, other.ID, der),
		"another server":    ask(h, other.ServerID, other.ID, der),
		"both":              ask(h, other.ServerID, op.ID, der),
	} {
		require.Equal(t, compute.Forbidden, kind, what)
	}
	require.Equal(t, compute.Invalid, ask(h, op.ServerID, op.ID, []byte("no key")))
	require.Equal(t, compute.Invalid, ask(h, op.ServerID, op.ID, der, der, der, der, der))
	q := schema.New(c.DB)
	is := schema.GetEndorsementParams{ServerID: op.ServerID, OperationID: op.ID}
	_, err := q.GetEndorsement(c.Ctx, is)
	require.Error(t, err, "nothing was kept")

	on, err := h.client.Endorses(c.Ctx, op.ServerID, op.ID)
	require.NoError(t, err)
	require.True(t, on)
	_, before := endorsementKey(t)
	require.Empty(t, ask(h, op.ServerID, op.ID, before))
	got, err := h.client.Endorse(c.Ctx, op.ServerID, op.ID, [][]byte{der})
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(got[0])
	require.NoError(t, err)
	require.Equal(t, op.ServerID.String(), cert.Subject.CommonName)
	require.True(t, key.PublicKey.Equal(cert.PublicKey))
	require.NoError(t, cert.CheckSignatureFrom(c.endorser.Chain()[0]))
	kept, err := q.GetEndorsement(c.Ctx, is)
	require.NoError(t, err)
	require.Equal(t, got, kept.Certificates)
	require.Equal(t, [][]byte{c.endorser.Chain()[0].Raw}, kept.Issuers)

	for _, kind := range []compute.OperationKind{compute.OpStart, compute.OpStop, compute.OpRebuild, compute.OpResize} {
		c.Exec("UPDATE operations SET kind = $2 WHERE id = $1", op.ID, kind)
		require.Equal(t, compute.Forbidden, ask(h, op.ServerID, op.ID, der), "%s: the server has a vTPM", kind)
		c.Exec("INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, 'tpm_new', 'yes')", op.ServerID)
		require.Empty(t, ask(h, op.ServerID, op.ID, der), "%s: it is made when the server starts", kind)
		c.Exec("DELETE FROM server_system_metadata")
	}
	// K20: a rebuild whose host has lost the state, which is on the ledger by what it keeps of that.
	c.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES (gen_random_uuid(), 'tpm_state', $1::text, $2, '', 'server', $3, $4, gen_random_uuid(), 'p', 'u', 'present')`,
		h.id.String(), compute.KeptTPM(op.ServerID, op.ID), op.ServerID, op.ID)
	for kind, want := range map[compute.OperationKind]compute.Kind{compute.OpRebuild: "", compute.OpStart: compute.Forbidden, compute.OpResize: compute.Forbidden} {
		c.Exec("UPDATE operations SET kind = $2 WHERE id = $1", op.ID, kind)
		require.Equal(t, want, ask(h, op.ServerID, op.ID, der), kind)
	}
	c.Exec("UPDATE operations SET kind = 'rebuild' WHERE id = $1", op.ID)
	for _, change := range []string{"place = gen_random_uuid()::text", "name = 'another.one'", "operation_id = 'req-other'", "state = 'waiting', blocked_by = 'host', try_at = now()"} {
		c.Exec("UPDATE ledger SET "+change+" WHERE name = $1", compute.KeptTPM(op.ServerID, op.ID))
		require.Equal(t, compute.Forbidden, ask(h, op.ServerID, op.ID, der), change)
		c.Exec("UPDATE ledger SET place = $1, name = $2, operation_id = $3, state = 'present', blocked_by = '' WHERE kind = 'tpm_state' AND name <> $4",
			h.id.String(), compute.KeptTPM(op.ServerID, op.ID), op.ID, op.ServerID.String())
		require.Empty(t, ask(h, op.ServerID, op.ID, der))
	}
	c.Exec("UPDATE operations SET kind = 'create', state = 'succeeded' WHERE id = $1", op.ID)
	require.Equal(t, compute.Forbidden, ask(h, op.ServerID, op.ID, der), "it has ended")
}

// The certificates are the server's once the operation that made its vTPM says so, and those of vTPMs that it has no more go.
func TestWhoseEndorsement(t *testing.T) {
	t.Parallel()
	c := withEndorser(t)
	h := c.enrolled("here")
	op := h.server()
	c.Exec(`UPDATE servers SET tpm = '{"version": "2.0", "model": "tpm-crb", "security": "user", "endorsed": "req-had"}',
		former = '{"tpm": {"endorsed": "req-former"}}' WHERE id = $1`, op.ServerID)
	for _, made := range []string{"req-had", "req-former", "req-gone", string(op.ID)} {
		c.Exec("INSERT INTO tpm_endorsements VALUES ($1, $2, '{}', '{}')", op.ServerID, made)
	}
	q := schema.New(c.DB)
	endorsed := func() compute.OperationID {
		s, err := q.GetServer(c.Ctx, op.ServerID)
		require.NoError(t, err)
		return s.TPM.Endorsed
	}
	note := func(by compute.OperationID, ofNew bool) {
		require.NoError(t, q.NoteEndorsement(c.Ctx, schema.NoteEndorsementParams{ServerID: op.ServerID, OperationID: string(by), OfNew: ofNew}))
	}
	require.NoError(t, q.DeleteOtherEndorsements(c.Ctx, schema.DeleteOtherEndorsementsParams{ServerID: op.ServerID, OperationID: op.ID}))
	for made, there := range map[compute.OperationID]bool{"req-had": true, "req-former": true, "req-gone": false, op.ID: true} {
		_, err := q.GetEndorsement(c.Ctx, schema.GetEndorsementParams{ServerID: op.ServerID, OperationID: made})
		require.Equal(t, there, err == nil, made)
	}
	note("req-made-none", false)
	require.Equal(t, compute.OperationID("req-had"), endorsed())
	note(op.ID, true)
	require.Equal(t, compute.OperationID("req-had"), endorsed(), "it failed, and the server has the vTPM that it had")
	c.Exec("INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, 'tpm_new', 'yes')", op.ServerID)
	note(op.ID, true)
	require.Equal(t, op.ID, endorsed())
	note("req-former", false)
	require.Equal(t, compute.OperationID("req-former"), endorsed())
	c.Exec("UPDATE servers SET tpm = NULL WHERE id = $1", op.ServerID)
	note(op.ID, false)
	s, err := q.GetServer(c.Ctx, op.ServerID)
	require.NoError(t, err)
	require.Nil(t, s.TPM)
}

// A gateway without an authority for it certifies nothing, and says so before a key is made.
func TestNoEndorsement(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("here")
	op := h.server()
	on, err := h.client.Endorses(c.Ctx, op.ServerID, op.ID)
	require.NoError(t, err)
	require.False(t, on)
}
