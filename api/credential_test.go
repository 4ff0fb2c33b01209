package api_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

var encryptedSpecs = map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0"}

// TestLowTheTokenOfAnOperationRestsSealed: the token of a request rests sealed for its
// operations, once, and opens again, for its own project and user alone.
func TestLowTheTokenOfAnOperationRestsSealed(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"min_count": 2, "max_count": 2}), at("2.90")).ok(202)
	require.Equal(t, 1, c.count("SELECT count(*) FROM credentials"))
	require.Equal(t, 2, c.count("SELECT count(*) FROM operations o JOIN credentials c ON c.id = o.credential_id"))
	var id uuid.UUID
	var owner, user string
	var sealed []byte
	require.NoError(t, c.pool.QueryRow(t.Context(), "SELECT id, project_id, user_id, sealed FROM credentials").Scan(&id, &owner, &user, &sealed))
	require.Equal(t, project, owner)
	require.NotContains(t, string(sealed), string(member))
	_, err := c.seal.Unseal(compute.Credential{ID: id, ProjectID: "another", UserID: user}, sealed)
	require.Error(t, err, "it is its project's")
	_, err = c.seal.Unseal(compute.Credential{ID: id, ProjectID: owner, UserID: "another"}, sealed)
	require.Error(t, err, "it is its user's")
	token, err := c.seal.Unseal(compute.Credential{ID: id, ProjectID: owner, UserID: user}, sealed)
	require.NoError(t, err)
	require.Equal(t, string(member), string(token))
}

// EE-10, TPM-08, TPM-40: what would fail later is refused at once, and nothing is left.
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
		"no account in the object store": {nil, compute.Errorf(compute.NotFound, "none"), encryptedSpecs, 403, "forbidden",
			"There is no object store that your token may use in this project: servers with a vTPM need one to be shelved."},
		"object store full": {nil, compute.Errorf(compute.Conflict, "full"), encryptedSpecs, 403, "forbidden",
			"The object store of this project has no room left: its quota is used up. Servers with a vTPM need some to be shelved."},
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
	for _, as := range []who{reader, member, stranger, admin} {
		pass(as)
		require.Zero(t, offered(), string(as))
	}
	pass(creator)
	require.Equal(t, 1, offered())
	pass(creator)
	require.Equal(t, 1, offered())
	by := compute.Credential{ProjectID: project}
	var sealed []byte
	require.NoError(t, c.pool.QueryRow(t.Context(), "SELECT id, user_id, sealed FROM credentials WHERE offered AND project_id = $1", project).Scan(&by.ID, &by.UserID, &sealed))
	token, err := c.seal.Unseal(by, sealed)
	require.NoError(t, err)
	require.Equal(t, string(creator), string(token))
	c.exec("DELETE FROM credentials WHERE offered")
	pass(creator)
	require.Equal(t, 1, offered(), "it was tried: the next one")
}

// H1, H2: an offer is never of a token with more than the role that it takes to remove keys.
// An administrator's own operations act with his token, until they have ended.
func TestH1AnOfferIsOfNoTokenWithMoreRoles(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		roles, others []string
		offer         []who
	}{
		"as it comes":                {nil, nil, []who{creator}},
		"roles of another service":   {nil, []string{"member", "reader", "load-balancer_member"}, []who{creator, balancing}},
		"an operator's own decision": {[]string{"creator", "admin"}, nil, []who{creator, admin, powerful}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t, func(config *api.Config) { config.KeyRoles, config.OtherRoles = v.roles, v.others })
			c.exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
				VALUES ($1, 'key_secret', 'key-manager', 'a key', 'server', $1, 'req-1', $1, $2, 'u', 'waiting', 'credential', now())`, uuid.New(), project)
			for _, as := range []who{admin, powerful, balancing, creator, member, powerless} {
				c.do(t, as, "GET", "/flavors", "")
				require.Equal(t, slices.Contains(v.offer, as), c.count("SELECT count(*) FROM credentials WHERE offered") == 1, string(as))
				c.exec("DELETE FROM credentials WHERE offered")
			}
			c.addFlavor("7", encryptedSpecs)
			c.do(t, powerful, "POST", "/servers", c.body(map[string]any{"flavorRef": "7"}), at("2.90")).ok(202)
			require.Equal(t, 1, c.count("SELECT count(*) FROM credentials c JOIN operations o ON o.credential_id = c.id WHERE NOT c.offered AND c.user_id = 'user-powerful'"))
		})
	}
}
