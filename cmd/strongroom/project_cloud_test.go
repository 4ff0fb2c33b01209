package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	identity "github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
	"strongroom/schema/schematest"
	"strongroom/schema/seal"
)

// onKeystone configures the command to run on a real Keystone, as strongroom's own user.
func onKeystone(t *testing.T, f *schematest.Fixture) (admin *gophercloud.ServiceClient) {
	t.Helper()
	own, _, _, err := clouds.Parse(clouds.WithLocations(cloudtest.Open(t)), clouds.WithCloudName("strongroom"))
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{"password": own.Password, "key": seal.NewKey()} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, value := range map[string]string{
		"DATABASE__URL": f.DB.Config().ConnString(), "CREDENTIALS__KEY": filepath.Join(dir, "key"), "TRUSTS__BACKEND": "keystone",
		"IDENTITY__AUTH_URL": own.IdentityEndpoint, "IDENTITY__USERNAME": own.Username, "IDENTITY__PROJECT": own.TenantName,
		"IDENTITY__PASSWORD_FILE": filepath.Join(dir, "password"),
	} {
		t.Setenv("STRONGROOM_"+name, value)
	}
	admin, err = openstack.NewIdentityV3(cloudtest.Login(t, "admin"), gophercloud.EndpointOpts{})
	require.NoError(t, err)
	return admin
}

// P21: what waits in a project goes from the ledger by a command, once Keystone does not know
// the project any more, and not before.
func TestP21AProjectIsForgottenOnceItIsGone(t *testing.T) {
	f := schematest.NewFixture(t)
	admin := onKeystone(t, f)
	p, err := identity.Create(t.Context(), admin, identity.CreateOpts{Name: "test-" + uuid.NewString(), DomainID: "default"}).Extract()
	require.NoError(t, err)
	f.Host("node-7", 8, 8192)
	op := f.Server(compute.OpDelete)
	op.Credential = compute.Credential{ID: uuid.New(), ProjectID: p.ID, UserID: "u1"}
	f.Exec("UPDATE servers SET project_id = $1", p.ID)
	secret := op.Thing(compute.ThingKeySecret, compute.PlaceKeyManager, "a key").Waits(compute.BlockedByCredential, "refused")
	disk := op.Thing(compute.ThingDiskFile, uuid.NewString(), "a disk").Waits(compute.BlockedByHost, "its host does not answer")
	image := op.Thing(compute.ThingImage, compute.PlaceImageStore, "an image")
	kept := op.Thing(compute.ThingImage, compute.PlaceImageStore, "another image")
	all := []compute.Thing{secret, disk, image, kept}
	require.NoError(t, ledger.Open(f.Ctx, f.Q, all))
	require.NoError(t, ledger.Wait(f.Ctx, f.Q, all[:2]))
	f.Exec("UPDATE ledger SET state = 'handed_over' WHERE name = 'another image'")

	left, err := (&ledger.Activities{Pool: f.DB}).LeftIn(f.Ctx, ledger.LeftInInput{Projects: []string{p.ID, "another"}})
	require.NoError(t, err)
	require.Equal(t, []compute.GoneProject{{Project: p.ID, Things: 2}}, left.Left, "without what is on hosts and what was handed over")

	forget := func(c projectForget) (got forgottenProject, err error) {
		t.Helper()
		c.Output = "json"
		read, write, pipeErr := os.Pipe()
		require.NoError(t, pipeErr)
		stdout := os.Stdout
		os.Stdout = write
		err = c.Run(&run{Context: t.Context(), cli: &cli{}})
		os.Stdout = stdout
		require.NoError(t, write.Close())
		text, readErr := io.ReadAll(read)
		require.NoError(t, readErr)
		if err == nil {
			require.NoError(t, json.Unmarshal(text, &got))
		}
		return got, err
	}
	refused := func(id, why string, yes bool) {
		t.Helper()
		_, err := forget(projectForget{Project: id, Yes: yes})
		require.ErrorContains(t, err, why)
		require.NotContains(t, err.Error(), "\n")
		require.Equal(t, 1, exitCode(err))
		require.Zero(t, f.CountRows("SELECT count(*) FROM ledger WHERE state = 'released'"))
	}
	refused(p.ID, "still knows project "+p.ID, true)
	refused("../projects", "or gives no clear answer about it", true)
	require.NoError(t, identity.Delete(t.Context(), admin, p.ID).ExtractErr())
	refused(p.ID, "still has 1 servers: delete them first", true)
	f.Exec("UPDATE servers SET deleted_at = now()")
	refused(p.ID, "still has 1 things that operations have not given up", true)
	f.Exec("UPDATE ledger SET state = 'handed_over' WHERE name = 'an image'")
	refused(p.ID, "say --yes", false)

	for i := range 2 {
		got, err := forget(projectForget{Project: p.ID, Yes: true})
		require.NoError(t, err)
		require.Len(t, got.Things, 1-i, "the second time nothing is left to be let go")
		for _, thing := range got.Things {
			require.Equal(t, "a key", thing.Name)
		}
	}
	require.Equal(t, 1, f.CountRows("SELECT count(*) FROM ledger WHERE state = 'released'"))
}
