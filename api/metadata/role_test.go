package metadata_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api/metadata"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

func (k *kit) exec(statement string) {
	_, err := k.pool.Exec(k.t.Context(), statement)
	require.NoError(k.t, err)
}

// The service starts and answers with a role that reads what it needs. That role reads no
// credential, no ledger, none of the other columns, and writes nothing.
func TestLowTheMetadataServiceNeedsLittleOfTheDatabase(t *testing.T) {
	t.Parallel()
	k := setup(t)
	pool, role := schematest.AsRole(t, k.pool)
	k.http.Close()
	k.http = httptest.NewServer(metadata.New(metadata.Config{Servers: schema.Metadata{Pool: pool}, Secret: secret}))
	t.Cleanup(k.http.Close)
	status, _, _ := k.get("/openstack/latest/meta_data.json", nil)
	require.NotEqual(t, http.StatusOK, status, "it was granted nothing yet")
	k.exec("GRANT ALL ON ALL TABLES IN SCHEMA public TO " + role) // as somebody did before
	for range 2 {
		require.NoError(t, schema.GrantMetadata(t.Context(), k.pool, role))
	}
	require.NoError(t, schema.CheckVersion(t.Context(), pool), "with which it starts")
	for path, says := range map[string]string{
		"/openstack/latest/meta_data.json": `"name": "Vault"`, "/openstack/latest/user_data": "#!/bin/sh", "/latest/meta-data/hostname": "vault",
	} {
		status, body, _ := k.get(path, nil)
		require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
		require.Contains(t, strings.ReplaceAll(body, `":"`, `": "`), says, path)
	}

	_, _, err := schema.Metadata{Pool: pool}.AddressOwner(t.Context(), compute.NetworkID{UUID: uuid.New()}, netip.MustParseAddr("10.0.0.7"))
	require.ErrorContains(t, err, "no server has the address 10.0.0.7")

	schematest.Confined(t, k.pool, pool, "SELECT * FROM schema_compatibility LIMIT 0") // all of whose one column it reads
	for _, statement := range []string{
		"SELECT current_operation FROM servers", "SELECT encryption_secret_uuid FROM server_disks", "UPDATE servers SET name = 'x'",
	} {
		schematest.Refused(t, pool, statement)
	}
}

// Who can do anything is granted nothing, and a role that is not there is not made.
func TestTheMetadataRoleIsNoSuperuser(t *testing.T) {
	t.Parallel()
	k := setup(t)
	err := schema.GrantMetadata(t.Context(), k.pool, "nobody")
	require.ErrorContains(t, err, "there is no role nobody")
	err = schema.GrantMetadata(t.Context(), k.pool, k.pool.Config().ConnConfig.User)
	require.ErrorContains(t, err, "can do anything")
}
