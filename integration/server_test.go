package integration_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
)

// settleTimeout bounds what has no witness: a request, a command that waits by itself.
const settleTimeout = 5 * time.Minute

// flavorSpec is a flavor that a suite needs.
type flavorSpec struct {
	name            string
	memory          int
	root, ephemeral int
	swap            int
	specs           map[string]string
}

var (
	encryptedTPM = flavorSpec{"e2e-crb", 192, 1, 1, 64, map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}}
	encryptedTIS = flavorSpec{"e2e-tis20", 192, 1, 0, 0, map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0"}}
	encrypted12  = flavorSpec{"e2e-tis12", 192, 1, 0, 0, map[string]string{"hw:ephemeral_encryption": "true", "hw:tpm_version": "1.2", "hw:tpm_model": "tpm-tis"}}
	delegated    = flavorSpec{"e2e-host", 192, 1, 0, 0, map[string]string{
		"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_secret_security": "host",
		"hw:tpm_version": "2.0", "hw:tpm_secret_security": "host",
	}}
	delegatedTPM = flavorSpec{"e2e-host-tpm", 192, 1, 0, 0, map[string]string{
		"hw:ephemeral_encryption": "true", "hw:tpm_version": "2.0", "hw:tpm_secret_security": "host",
	}}
	encrypted = flavorSpec{"e2e-luks", 128, 1, 0, 0, map[string]string{"hw:ephemeral_encryption": "true"}}
)

// flavor makes sure that the flavor exists and gives its id.
func (c *testCloud) flavor(t *testing.T, f flavorSpec) string {
	t.Helper()
	admin := c.compute(t, "")
	if _, err := flavors.Get(t.Context(), admin, f.name).Extract(); err == nil {
		return f.name
	}
	_, err := flavors.Create(t.Context(), admin, flavors.CreateOpts{
		ID: f.name, Name: f.name, VCPUs: 1, RAM: f.memory, Disk: &f.root, Ephemeral: &f.ephemeral, Swap: &f.swap,
	}).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusConflict) {
		return f.name
	}
	require.NoError(t, err)
	if len(f.specs) > 0 {
		_, err = flavors.CreateExtraSpecs(t.Context(), admin, f.name, flavors.ExtraSpecsOpts(f.specs)).Extract()
		require.NoError(t, err)
	}
	return f.name
}

// create asks for a server of the demo project and gives its id. It is deleted
// when the test ends.
func (c *testCloud) create(t *testing.T, f flavorSpec, change ...func(*servers.CreateOpts)) string {
	t.Helper()
	of := c.flavor(t, f)
	client := c.asking(t, "-demo")
	opts := servers.CreateOpts{
		Name: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), FlavorRef: of, ImageRef: c.image, Networks: "none",
	}
	for _, do := range change {
		do(&opts)
	}
	s, err := servers.Create(t.Context(), client, opts, nil).Extract()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = servers.Delete(context.Background(), client, s.ID).ExtractErr()
		c.gone(t, s.ID)
	})
	return s.ID
}

// createIdle is create for a test of what goes on around a guest, which does nothing.
func (c *testCloud) createIdle(t *testing.T, f flavorSpec, change ...func(*servers.CreateOpts)) string {
	t.Helper()
	return c.create(t, f, append(change, func(o *servers.CreateOpts) { o.ImageRef = c.idler })...)
}

// settled waits until no operation is at work on a server.
func (c *testCloud) settled(t *testing.T, id string) *servers.Server {
	t.Helper()
	return c.settledAs(t, "-demo", id)
}

// settledAs is settled, seen by a user.
func (c *testCloud) settledAs(t *testing.T, user, id string) *servers.Server {
	t.Helper()
	client := c.compute(t, user)
	var s *servers.Server
	await.For(t, "no operation is at work on server "+id, func() bool {
		var err error
		s, err = servers.Get(context.Background(), client, id).Extract()
		require.False(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "server %s is gone", id)
		return err == nil && s.TaskState == ""
	}, c.progressAs(user, id))
	return s
}

// becomes waits until a server is settled and requires its status.
func (c *testCloud) becomes(t *testing.T, id, status string) *servers.Server {
	t.Helper()
	s := c.settled(t, id)
	if s.Status != status { // an operation that was undone is told by its action alone
		require.Equal(t, status, s.Status, "fault: %s; its newest operation: %+v", s.Fault.Message, c.toldWhy(t, id, ""))
	}
	return s
}

// delete deletes a server and waits until it is gone.
func (c *testCloud) delete(t *testing.T, id string) {
	t.Helper()
	err := servers.Delete(t.Context(), c.compute(t, "-demo"), id).ExtractErr()
	require.NoError(t, err)
	c.gone(t, id)
}

func (c *testCloud) gone(t *testing.T, id string) {
	t.Helper()
	c.goneAs(t, "-demo", id)
}

// goneAs waits until a user sees a server no more.
func (c *testCloud) goneAs(t *testing.T, user, id string) {
	t.Helper()
	client := c.compute(t, user)
	await.For(t, "server "+id+" is gone", func() bool {
		_, err := servers.Get(context.Background(), client, id).Extract()
		return gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	}, c.progressAs(user, id))
}
