package integration_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// reader is somebody of the project demo who is at a server of the user demo there.
type reader struct {
	user    string
	private bool // the owner keeps the server's key to himself
	listed  bool // and to who is on its ACL, as the reader is
	policy  map[string]string
	may     bool // Barbican lets him read the key
	removes bool // and remove it
}

// readers are who × which secret × which policy of Barbican.
var readers = map[string]reader{
	"a member and the project's secret":                            {user: "-demo2", may: true, removes: true},                                          // EE-37
	"a member and a private secret":                                {user: "-demo2", private: true},                                                     // EE-38
	"a member on the ACL of a private secret":                      {user: "-demo2", private: true, listed: true, may: true},                            // EE-38
	"the project's admin and a private secret":                     {user: "", private: true, may: true, removes: true},                                 // EE-30, EE-38
	"the project's admin and a private secret, another policy":     {user: "", private: true, policy: cloud.NoAdminReads, removes: true},                // EE-38
	"the project's admin and the project's secret, another policy": {user: "", policy: cloud.NoAdminReads, may: true, removes: true},                    // EE-30
	"a member and the project's secret, new policies":              {user: "-demo2", policy: cloud.NewDefaults, may: true, removes: true},               // EE-37
	"a member on the ACL of a private secret, new policies":        {user: "-demo2", private: true, listed: true, policy: cloud.NewDefaults, may: true}, // EE-38
}

// EE-30, EE-37, EE-38: who may read the key of a server can do with it what its owner can; who
// may not changes nothing with a start, a reboot, a rebuild, a rescue or an image of it, reads
// why, and the owner goes on with it. Each can delete it; what he may not remove of its keys goes
// when its owner comes by.
func TestEE38WhoMayReadWhichSecret(t *testing.T) {
	backends(t, openStack)
	t.Parallel()
	for _, name := range stepsOf("readers of secrets", slices.Sorted(maps.Keys(readers))) {
		r := readers[name]
		t.Run(name, func(t *testing.T) {
			c := ownCloud(t)
			id := c.createIdle(t, encrypted)
			c.becomes(t, id, "ACTIVE")
			key := c.disks(t, id)[0].Secret
			if r.private {
				c.keepPrivate(t, key, r)
			}
			require.NoError(t, c.real.SetBarbicanPolicy(r.policy))
			t.Cleanup(func() { assert.NoError(t, c.real.SetBarbicanPolicy(nil)) })
			attempt := attempt{reader: r, testCloud: c, server: id, key: key}
			attempt.images(t)
			attempt.do(t, "rescue", "ACTIVE", "RESCUE", func(client *gophercloud.ServiceClient) error {
				return servers.Rescue(t.Context(), client, id, servers.RescueOpts{RescueImageRef: c.idler}).Err
			})
			if !r.may {
				c.rescue(t, id, c.idler)
			}
			attempt.do(t, "unrescue", "RESCUE", "ACTIVE", func(client *gophercloud.ServiceClient) error {
				return servers.Unrescue(t.Context(), client, id).ExtractErr()
			})
			if !r.may {
				c.unrescue(t, id)
			}
			attempt.do(t, "reboot", "ACTIVE", "ACTIVE", func(client *gophercloud.ServiceClient) error {
				return servers.Reboot(t.Context(), client, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr()
			})
			attempt.rebuilds(t, "ACTIVE")
			c.shutOff(t, id)
			attempt.rebuilds(t, "SHUTOFF")
			attempt.do(t, "start", "SHUTOFF", "ACTIVE", func(client *gophercloud.ServiceClient) error {
				return servers.Start(t.Context(), client, id).ExtractErr()
			})
			if !r.may {
				c.startAgain(t, id)
			}
			attempt.deletes(t)
		})
	}
}

// TPM-14: the key of a vTPM is read as its server is started, with the authority of whoever starts it: a member who
// may read the key of the disk, and not that one, changes nothing, and reads why.
func TestTPM14WhoMayNotReadTheKeyOfAVTPM(t *testing.T) {
	backends(t, openStack)
	c := ownCloud(t)
	id := c.createIdle(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	attempt := attempt{reader: reader{user: "-demo2", private: true}, testCloud: c, server: id, key: c.systemMetadata(t, id, compute.SystemTPMSecret)}
	c.keepPrivate(t, attempt.key, attempt.reader)
	attempt.do(t, "reboot", "ACTIVE", "ACTIVE", func(client *gophercloud.ServiceClient) error {
		return servers.Reboot(t.Context(), client, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr()
	})
	c.shutOff(t, id)
	attempt.do(t, "start", "SHUTOFF", "ACTIVE", func(client *gophercloud.ServiceClient) error {
		return servers.Start(t.Context(), client, id).ExtractErr()
	})
	c.startAgain(t, id)
	attempt.deletes(t)
}

// keepPrivate makes a secret of the user demo his own.
func (c *testCloud) keepPrivate(t *testing.T, secret string, r reader) {
	t.Helper()
	no, users := false, []string{}
	if r.listed {
		users = append(users, c.userID(t, r.user))
	}
	keys := c.service(t, "-demo", openstack.NewKeyManagerV1)
	require.NoError(t, acls.SetSecretACL(t.Context(), keys, secret, acls.SetOpts{{Type: "read", ProjectAccess: &no, Users: &users}}).Err)
}

func (c *testCloud) userID(t *testing.T, user string) string {
	t.Helper()
	id, _ := cloudtest.Who(t, c.service(t, user, openstack.NewKeyManagerV1).ProviderClient)
	return id
}

// attempt is what a reader does with a server.
type attempt struct {
	reader
	*testCloud
	server string
	key    string // of its disk
}

// do tries an operation. Without the key the server is as it was, whoever asked reads what he
// needs, and nothing was stopped.
func (a *attempt) do(t *testing.T, what, was, becomes string, ask func(*gophercloud.ServiceClient) error) {
	t.Helper()
	require.NoError(t, ask(a.compute(t, a.user)), "the request of a %s is allowed", what)
	s := a.settled(t, a.server)
	if a.may {
		require.Equal(t, becomes, s.Status, "%s: %s", what, s.Fault.Message)
		require.Empty(t, a.newestAction(t, a.server).Message, "%s: %s", what, a.toldWhy(t, a.server, a.user).Message)
		return
	}
	require.Equal(t, was, s.Status, "%s: %s", what, s.Fault.Message)
	a.refused(t, what, a.key)
}

// refused requires that the newest operation was refused for a secret, and stopped nothing.
func (a *attempt) refused(t *testing.T, what, secret string) {
	t.Helper()
	why := a.refusedBecause(t, a.server)
	require.Contains(t, why, "read secret "+secret, what)
	require.NotContains(t, why, "stop_domain", what)
	told := a.toldWhy(t, a.server, a.user)
	require.Equal(t, "failed", told.State, what)
	for _, part := range []string{"read secret " + secret, "403", "usually creator", "can add the user to its ACL"} {
		require.Contains(t, told.Message, part, what)
	}
	require.Empty(t, a.audit(t).Findings, what)
}

// told is what a user reads of an operation.
type told struct {
	State   string `json:"state"`
	Message string `json:"message"`
}

// toldWhy gives what a user reads of the newest operation of a server.
func (c *testCloud) toldWhy(t *testing.T, id, user string) told {
	t.Helper()
	client := c.compute(t, user)
	client.Microversion = "" // the header below says it
	var shown struct{ Operations []told }
	response, err := client.Get(t.Context(), client.ServiceURL("servers", id, "operations"), &shown, &gophercloud.RequestOpts{MoreHeaders: extended})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.NotEmpty(t, shown.Operations)
	return shown.Operations[0]
}

// images asks for copies of the disk of the running server, with each key.
func (a *attempt) images(t *testing.T) {
	t.Helper()
	for _, key := range []string{"same", "new", "none"} {
		img, err := a.imageAs(t, a.user, a.server, map[string]any{"key": key})
		require.NoError(t, err)
		a.becomes(t, a.server, "ACTIVE")
		store := a.imageService(t, a.user)
		made, err := images.Get(t.Context(), store, img).Extract()
		if !a.may {
			require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%s: %v", key, err)
			a.refused(t, "image with key "+key, a.key)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, images.ImageStatusActive, made.Status, "%s: %s", key, a.toldWhy(t, a.server, a.user).Message)
		if key != "none" {
			a.asPrivate(t, fmt.Sprint(made.Properties["os_encrypt_key_id"]))
			a.removeKey(t, a.user, fmt.Sprint(made.Properties["os_encrypt_key_id"]))
		}
		require.NoError(t, images.Delete(t.Context(), store, img).ExtractErr())
	}
}

// imageAs asks for an image of a server as a user.
func (c *testCloud) imageAs(t *testing.T, user, server string, encryption map[string]any) (string, error) {
	t.Helper()
	client := c.compute(t, user)
	client.Microversion = "" // the header below says it
	var made struct {
		ID string `json:"image_id"`
	}
	body := map[string]any{"createImage": map[string]any{"name": "of another", "encryption": encryption}}
	response, err := client.Post(t.Context(), client.ServiceURL("servers", server, "action"), body, &made,
		&gophercloud.RequestOpts{MoreHeaders: extended, OkCodes: []int{http.StatusAccepted}})
	if err != nil {
		return "", err
	}
	return made.ID, response.Body.Close()
}

func (c *testCloud) removeKey(t *testing.T, user, secret string) {
	t.Helper()
	require.NoError(t, secrets.Delete(t.Context(), c.service(t, user, openstack.NewKeyManagerV1), secret).ExtractErr())
}

// asPrivate requires that a secret is as private as the server's was: its owner reads it in any
// case, and the project only if it reads that one.
func (a *attempt) asPrivate(t *testing.T, secret string) {
	t.Helper()
	acl, err := acls.GetSecretACL(t.Context(), a.service(t, "", openstack.NewKeyManagerV1), secret).Extract()
	require.NoError(t, err)
	read := (*acl)["read"]
	require.Equal(t, !a.private, read.ProjectAccess)
	if a.private {
		require.Contains(t, read.Users, a.userID(t, "-demo"))
		require.Equal(t, a.listed, slices.Contains(read.Users, a.userID(t, "-demo2")), "%v", read.Users)
	}
}

// rebuilds rebuilds the server in a state, twice where that is allowed: its new key is as private.
func (a *attempt) rebuilds(t *testing.T, status string) {
	t.Helper()
	a.do(t, "rebuild", status, status, func(client *gophercloud.ServiceClient) error {
		_, err := servers.Rebuild(t.Context(), client, a.server, servers.RebuildOpts{ImageRef: a.idler}).Extract()
		return err
	})
	key := a.disks(t, a.server)[0].Secret
	require.Equal(t, a.may, key != a.key)
	if a.may {
		a.asPrivate(t, key)
		a.key = key
		a.ownerClears(t)
	}
}

// deletes deletes the server. What is left of its keys waits for its owner.
func (a *attempt) deletes(t *testing.T) {
	t.Helper()
	require.NoError(t, servers.Delete(t.Context(), a.compute(t, a.user), a.server).ExtractErr())
	a.goneAs(t, "-reader", a.server)
	if !a.removes && !a.may { // a rebuild has made the key his own where he may read
		a.keysWait(t, a.server, 1)
	}
	a.ownerClears(t)
	a.nothingIsLeft(t)
}

// ownerClears has the owner come by, for keys that only he may remove, again and again: no token is kept while another
// one is, which may end before it is tried.
func (a *attempt) ownerClears(t *testing.T) {
	t.Helper()
	var left []compute.Finding
	await.For(t, "what waits for the owner goes", func() bool {
		if left = a.audit(t).Findings; len(left) == 0 {
			return true
		}
		require.False(t, a.removes)
		listed(t, a.asking(t, "-demo"), servers.ListOpts{})
		return false
	}, findings(&left))
}
