package gateway_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/worker/gateway"
)

// TPM-20: a host hands keys of a running server on for as long as an operation that moves it while it
// runs is about to make its disks on the other host, or to run it there. Whoever has another
// certificate, or that of a host to which the server does not go, gets none (H1).
func TestH1KeysAreHandedOnWithATicket(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	from, to, thief := c.enrolled("from"), c.enrolled("to"), c.enrolled("thief")
	op := from.server()
	of := compute.Arrival{Server: op.ServerID, Operation: op.ID}
	grants := func(at, by *host, of compute.Arrival) compute.Kind {
		key, err := at.client.GrantsKeys(c.Ctx, of, by.got.Cert)
		if err == nil {
			require.Equal(t, by.request.SealingKey, key)
		}
		return compute.KindOf(err)
	}
	comes := func(at *host, server compute.ServerID) compute.Kind {
		got, err := at.client.HandedFrom(c.Ctx, server, compute.SecretID{UUID: uuid.New()})
		if err == nil {
			require.NoError(t, got.Accepts(from.got.Cert))
			require.Equal(t, compute.Forbidden, compute.KindOf(got.Accepts(thief.got.Cert)))
			got.Serials = nil
			require.Equal(t, gateway.Handed{Operation: op.ID, From: compute.Agent{Host: from.id, Name: "from", URL: "https://from"}}, got)
		}
		return compute.KindOf(err)
	}
	refused := func(why string) {
		t.Helper()
		require.Equal(t, compute.Forbidden, grants(from, to, of), why)
		require.Equal(t, compute.Forbidden, comes(to, op.ServerID), why)
	}
	c.Exec("UPDATE hosts SET agent_url = 'https://from' WHERE id = $1", from.id.UUID)
	c.Exec("UPDATE operations SET kind = 'live-migration' WHERE id = $1", op.ID)
	refused("it does not go there")
	c.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES (gen_random_uuid(), 'disk_file', $1::text, $2, '', 'server', $3, $4, $5, 'p', 'u', 'intended')`,
		to.id.String(), op.ServerID.String()+"/disk", op.ServerID, op.ID, schematest.Owner.ID)
	granted := func() {
		t.Helper()
		require.Empty(t, grants(from, to, of))
		require.Empty(t, comes(to, op.ServerID))
	}
	granted()
	other := from.server() // another one, on which an operation runs, too
	for what, kind := range map[string]compute.Kind{
		"a host to which it does not go": grants(from, thief, of),
		"of a host that has it not":      grants(thief, to, of),
		"the other way":                  grants(to, from, of),
		"to itself":                      grants(from, from, of),
		"of itself":                      grants(to, to, of),
		"another operation":              grants(from, to, compute.Arrival{Server: op.ServerID, Operation: other.ID}),
		"another server":                 grants(from, to, compute.Arrival{Server: other.ServerID, Operation: op.ID}),
		"another server's own":           grants(from, to, compute.Arrival{Server: other.ServerID, Operation: other.ID}),
		"comes elsewhere":                comes(thief, op.ServerID),
		"comes from there":               comes(from, op.ServerID),
		"another comes":                  comes(to, other.ServerID),
	} {
		require.Equal(t, compute.Forbidden, kind, what)
	}
	for why, sql := range map[string][2]string{
		"the step has ended":                {"UPDATE ledger SET state = 'present'", "UPDATE ledger SET state = 'intended'"},
		"it is undone":                      {"UPDATE ledger SET state = 'released'", "UPDATE ledger SET state = 'intended'"},
		"something else is made there":      {"UPDATE ledger SET kind = 'cached_image'", "UPDATE ledger SET kind = 'running_domain'"},
		"it does not move while it runs":    {"UPDATE operations SET kind = 'migrate' WHERE kind = 'live-migration'", "UPDATE operations SET kind = 'live-migration' WHERE kind = 'migrate'"},
		"the operation has ended":           {"UPDATE operations SET state = 'failed'", "UPDATE operations SET state = 'running'"},
		"the operation has lost the server": {"UPDATE servers SET current_operation = ''", "UPDATE servers SET current_operation = '" + string(op.ID) + "' WHERE id = '" + op.ServerID.String() + "'"},
		"the server has come there already": {"UPDATE servers SET host_id = '" + to.id.String() + "'", "UPDATE servers SET host_id = '" + from.id.String() + "'"},
	} {
		c.Exec(sql[0])
		refused(why)
		c.Exec(sql[1])
		granted()
	}
	for why, sql := range map[string]string{"was revoked": "revoked_at = now()", "has ended": "revoked_at = NULL, not_after = now()"} {
		c.Exec("UPDATE host_certificates SET "+sql+" WHERE host_id = $1", from.id.UUID)
		got, err := to.client.HandedFrom(c.Ctx, op.ServerID, compute.SecretID{})
		require.NoError(t, err)
		require.Equal(t, compute.Forbidden, compute.KindOf(got.Accepts(from.got.Cert)), "the certificate of the host that it comes from %s", why)
	}
	c.Exec("UPDATE host_certificates SET revoked_at = now() WHERE host_id = $1", to.id.UUID)
	refused("the other host's certificate was revoked")
}

// H1: what a gateway gives a host of a server's key tells another host, when the server moves there, whether it has the same; of other
// servers' keys and of those that nobody has read it says nothing. The database alone says nothing of a key.
func TestH1WhatHandedKeysAreComparedWith(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	from, to := c.enrolled("from"), c.enrolled("to")
	op := from.server()
	own, unread := c.secret(op.ServerID, schematest.Owner), c.stray(schematest.Owner)
	other := from.server()
	others := c.secret(other.ServerID, schematest.Owner)
	for server, id := range map[compute.ServerID]compute.SecretID{op.ServerID: own, other.ServerID: others} {
		_, err := from.read(server, schematest.Owner, id)
		require.NoError(t, err)
	}
	c.Exec("UPDATE operations SET kind = 'live-migration' WHERE id = $1", op.ID)
	c.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES (gen_random_uuid(), 'disk_file', $1::text, $2, '', 'server', $3, $4, $5, 'p', 'u', 'intended')`,
		to.id.String(), op.ServerID.String()+"/disk", op.ServerID, op.ID, schematest.Owner.ID)
	checks := func(id compute.SecretID, value string) compute.Kind {
		t.Helper()
		got, err := to.client.HandedFrom(c.Ctx, op.ServerID, id)
		require.NoError(t, err)
		p := secret.New([]byte(value))
		defer p.Wipe()
		return compute.KindOf(got.Check(id, p))
	}
	value := c.value(schematest.Owner, own)
	require.Empty(t, checks(own, value))
	require.Equal(t, compute.Corrupt, checks(own, value+"x"))
	require.Equal(t, compute.Forbidden, checks(unread, c.value(schematest.Owner, unread)), "nobody has read it")
	require.Equal(t, compute.Forbidden, checks(others, c.value(schematest.Owner, others)), "it is another server's")
	comparable := func(at *host) ([]compute.SecretID, compute.Kind) {
		all, err := at.client.Comparable(c.Ctx, op.ServerID, []compute.SecretID{own, unread, others})
		return all, compute.KindOf(err)
	}
	all, kind := comparable(from)
	require.Empty(t, kind)
	require.Equal(t, []compute.SecretID{own}, all)
	_, kind = comparable(c.enrolled("thief"))
	require.Equal(t, compute.Forbidden, kind, "the server is not there")

	// Another one of the server's rows does not stand in for it.
	c.Exec("UPDATE secret_sums SET sealed = (SELECT sealed FROM secret_sums WHERE server_id = $2) WHERE server_id = $1", op.ServerID, other.ServerID)
	require.Equal(t, compute.Forbidden, checks(own, value))
	all, _ = comparable(from)
	require.Empty(t, all)
	c.Exec("UPDATE operations SET kind = 'start' WHERE id = $1", op.ID)
	_, err := from.read(op.ServerID, schematest.Owner, own)
	require.NoError(t, err)
	c.Exec("UPDATE operations SET kind = 'live-migration' WHERE id = $1", op.ID)
	require.Empty(t, checks(own, value), "the next start mends it")

	// What is noted stays as it is. That of a key which the server has no more goes with the next note, and a deleted server gets none.
	notes := func() int { return c.CountRows("SELECT count(*) FROM secret_sums WHERE server_id = $1", op.ServerID) }
	reads := func(id compute.SecretID) {
		t.Helper()
		c.Exec("UPDATE operations SET kind = 'start' WHERE id = $1", op.ID)
		_, err := from.read(op.ServerID, schematest.Owner, id)
		require.NoError(t, err)
	}
	before := c.Dump("secret_sums")
	reads(own)
	require.Equal(t, before, c.Dump("secret_sums"))
	next := c.secret(op.ServerID, schematest.Owner) // after a rotation
	reads(next)
	require.Equal(t, 1, notes())
	c.Exec("DELETE FROM secret_sums")
	c.Exec("UPDATE servers SET deleted_at = now() WHERE id = $1", op.ServerID)
	_, _ = from.read(op.ServerID, schematest.Owner, next)
	require.Zero(t, notes())
}
