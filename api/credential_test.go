package api_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

var encryptedSpecs = map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0"}

// The token of a request rests sealed for its operations, once, and opens again.
func TestTheTokenOfAnOperationRestsSealed(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"min_count": 2, "max_count": 2}), at("2.90")).ok(202)
	require.Equal(t, 1, c.count("SELECT count(*) FROM credentials"))
	require.Equal(t, 2, c.count("SELECT count(*) FROM operations o JOIN credentials c ON c.id = o.credential_id"))
	var id uuid.UUID
	var owner string
	var sealed []byte
	require.NoError(t, c.pool.QueryRow(t.Context(), "SELECT id, project_id, sealed FROM credentials").Scan(&id, &owner, &sealed))
	require.Equal(t, project, owner)
	require.NotContains(t, string(sealed), string(member))
	token, err := c.seal.Unseal(id, sealed)
	require.NoError(t, err)
	require.Equal(t, string(member), string(token))
}

// EE-10, TPM-08: what would fail later is refused at once, and nothing is left.
func TestWhatTheCloudDoesNotAllowIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	forbidden, away := compute.Errorf(compute.Forbidden, "no"), compute.Errorf(compute.Unavailable, "away")
	for name, v := range map[string]struct {
		keys, objects error
		specs         map[string]string
		code          int
		kind, message string
	}{
		"no role": {forbidden, nil, encryptedSpecs, 403, "forbidden", "Your token may not store secrets in the key manager in this project " +
			"(there the role is usually called creator). Encrypted disks and vTPMs need that."},
		"no key manager": {away, nil, encryptedSpecs, 503, "serviceUnavailable",
			"The key manager is not available: encrypted disks and vTPMs cannot be made now."},
		"no object store": {nil, forbidden, encryptedSpecs, 403, "forbidden",
			"There is no object store that your token may use in this project: servers with a vTPM need one to be shelved."},
		"object store away": {nil, away, encryptedSpecs, 503, "serviceUnavailable",
			"The object store is not available: servers with a vTPM need one to be shelved."},
		"no vTPM":    {nil, forbidden, map[string]string{"hw:ephemeral_encryption": "true"}, 202, "", ""},
		"not needed": {forbidden, forbidden, nil, 202, "", ""},
		"bad flavor": {nil, nil, map[string]string{"hw:ephemeral_encryption_secret_security": "all"}, 400, "badRequest", "Flavor flavor-7 has an invalid hw:ephemeral_encryption_secret_security extra spec. Invalid secret security 'all'. Allowed values: user, host, deployment."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			c.addFlavor("7", v.specs)
			c.keys.answer, c.objects.answer = v.keys, v.objects
			got := c.do(t, member, "POST", "/servers", c.body(map[string]any{"flavorRef": "7"}), at("2.90"))
			if v.code == 202 {
				got.ok(202)
				return
			}
			got.fails(v.code, v.kind, v.message)
			require.Zero(t, c.count("SELECT (SELECT count(*) FROM servers) + (SELECT count(*) FROM credentials)"))
		})
	}
}

// Each mode is tried with the credential that it is going to use.
func TestEachModeIsTriedWithItsOwnCredential(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.addFlavor("7", map[string]string{
		"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0",
		"hw:tpm_secret_security": "deployment", "hw:ephemeral_encryption_secret_security": "host",
	})
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"flavorRef": "7"}), at("2.90")).ok(202)
	require.Len(t, c.keys.asked, 2)
	require.Equal(t, project, c.keys.asked[0].ProjectID)
	require.Equal(t, compute.DeploymentCredential(), c.keys.asked[1])

	// An application credential cannot delegate.
	c.do(t, scripted, "POST", "/servers", c.body(map[string]any{"flavorRef": "7"}), at("2.90")).fails(400, "badRequest",
		`Flavor flavor-7 delegates the use of the server's keys (secret security "host"), and a token of an application credential cannot delegate. `+
			"Log in with a password or single sign-on.")
	c.addFlavor("8", encryptedSpecs)
	c.do(t, scripted, "POST", "/servers", c.body(map[string]any{"flavorRef": "8"}), at("2.90")).ok(202)
}

// What waits in a project gets the token of the next request there that may be
// good for it, once until it was tried.
func TestAPassingRequestOffersItsToken(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.do(t, member, "POST", "/servers", c.body(nil), at("2.90")).ok(202)
	offered := func() int { return c.count("SELECT count(*) FROM credentials WHERE offered") }
	pass := func(as who) { c.do(t, as, "GET", "/servers", "").ok(200) }
	pass(creator)
	require.Zero(t, offered(), "nothing waits")
	c.exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
		SELECT $1, 'key_secret', 'key-manager', 'a key', 'server', id, 'req-1', $1, $2, 'u', 'waiting', 'credential', now() FROM servers`, uuid.New(), project)
	for _, as := range []who{reader, member, stranger} {
		pass(as)
		require.Zero(t, offered(), string(as))
	}
	pass(creator)
	require.Equal(t, 1, offered())
	pass(creator)
	require.Equal(t, 1, offered())
	var id uuid.UUID
	var sealed []byte
	require.NoError(t, c.pool.QueryRow(t.Context(), "SELECT id, sealed FROM credentials WHERE offered AND project_id = $1", project).Scan(&id, &sealed))
	token, err := c.seal.Unseal(id, sealed)
	require.NoError(t, err)
	require.Equal(t, string(creator), string(token))
	c.exec("DELETE FROM credentials WHERE offered")
	pass(admin)
	require.Equal(t, 1, offered(), "it was tried: the next one")
}
