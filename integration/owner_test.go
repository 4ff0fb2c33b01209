package integration_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"github.com/stretchr/testify/require"
)

// TPM-14, EE-30: who may not read the keys of a server changes nothing, and an administrator reads
// why; its owner starts it afterwards, with the same TPM, and so does an administrator of its project,
// whom the key manager lets read the project's keys. TPM-31: an administrator without the
// keys can still delete it.
func TestAdministratorWithoutTheKeys(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	owner, stranger := c.compute(t, "-demo"), c.compute(t, "-admin")
	require.NoError(t, servers.Stop(t.Context(), owner, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")

	require.NoError(t, servers.Start(t.Context(), stranger, id).ExtractErr(), "the request itself is allowed")
	c.becomes(t, id, "SHUTOFF")
	why := c.refusedBecause(t, id)
	require.Contains(t, why, "start_domain: ")
	c.namesTheRole(t, why)
	c.nothingIsLeft(t)

	require.NoError(t, servers.Start(t.Context(), owner, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.console(t, id, "TG ready", 2), "nvcount=2", "the TPM is the same")

	c.shutOff(t, id)
	require.NoError(t, servers.Start(t.Context(), c.compute(t, ""), id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.console(t, id, "TG ready", 3), "nvcount=3")

	require.NoError(t, servers.Delete(t.Context(), stranger, id).ExtractErr())
	c.goneAs(t, "-reader", id)
	if c.real != nil {
		c.keysWait(t, id, 2)
		c.clearedBy(t, func() { c.compute(t, "-demo"); c.gone(t, id) })
	}
	c.nothingIsLeft(t)
}

// Another project sees and touches nothing; a reader sees and touches nothing; an
// administrator sees all.
func TestOtherPeoplesServers(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	id := c.createIdle(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	alt, reader, admin := c.compute(t, "-alt"), c.compute(t, "-reader"), c.compute(t, "-admin")

	_, err := servers.Get(t.Context(), alt, id).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	require.NotContains(t, listed(t, alt, servers.ListOpts{}), id)
	require.NotContains(t, listed(t, alt, servers.ListOpts{Name: t.Name()}), id)
	for name, attempt := range map[string]error{
		"stop":   servers.Stop(t.Context(), alt, id).ExtractErr(),
		"delete": servers.Delete(t.Context(), alt, id).ExtractErr(),
	} {
		require.True(t, gophercloud.ResponseCodeIs(attempt, http.StatusNotFound), "%s: %v", name, attempt)
	}
	err = servers.ListSimple(alt, servers.ListOpts{AllTenants: true}).EachPage(t.Context(), func(context.Context, pagination.Page) (bool, error) { return true, nil })
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)

	_, err = servers.Get(t.Context(), reader, id).Extract()
	require.NoError(t, err)
	require.Contains(t, listed(t, reader, servers.ListOpts{}), id)
	for name, attempt := range map[string]error{
		"stop":   servers.Stop(t.Context(), reader, id).ExtractErr(),
		"delete": servers.Delete(t.Context(), reader, id).ExtractErr(),
		"create": servers.Create(t.Context(), reader, servers.CreateOpts{
			Name: "no", FlavorRef: c.flavor(t, encrypted), ImageRef: c.image, Networks: "none",
		}, nil).Err,
	} {
		require.True(t, gophercloud.ResponseCodeIs(attempt, http.StatusForbidden), "%s: %v", name, attempt)
	}

	require.NotContains(t, listed(t, admin, servers.ListOpts{}), id, "it is in another project")
	require.Contains(t, listed(t, admin, servers.ListOpts{AllTenants: true}), id)
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)
}

// listed gives the ids of the servers that a client sees.
func listed(t *testing.T, client *gophercloud.ServiceClient, opts servers.ListOpts) []string {
	t.Helper()
	pages, err := servers.List(client, opts).AllPages(t.Context())
	require.NoError(t, err)
	list, err := servers.ExtractServers(pages)
	require.NoError(t, err)
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}
