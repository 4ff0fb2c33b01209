package integration_test

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/gophercloud/gophercloud/v2/openstack/objectstorage/v1/containers"
	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"libvirt.org/go/libvirtxml"

	"strongroom/activities/object/swift"
	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/cloud/cloudtest"
	"strongroom/deploy/dev/libvirtd/libvirttest"
	"strongroom/deploy/dev/process"
)

// cloudSettings are those of the api, control and the gateway, which start again with each change.
func (c *testCloud) cloudSettings(t *testing.T) settings {
	t.Helper()
	return c.settingsOf(t, "gateway", "control", "api")
}

// settingsOf are those of some parts of the control plane, which start again with each change.
func (c *testCloud) settingsOf(t *testing.T, parts ...string) settings {
	t.Helper()
	was, err := os.ReadFile(c.ConfigFile())
	require.NoError(t, err)
	return settings{c.ConfigFile(), was, func() {
		for _, part := range parts {
			before, _ := process.Named(c.PIDFile(part))
			c.kill(t, part)
			await.For(t, part+" runs again", func() bool {
				now, running := process.Named(c.PIDFile(part))
				return running && now != before
			})
		}
		if slices.Contains(parts, "api") {
			await.For(t, "the api answers", func() bool {
				_, err := servers.List(c.compute(t, "-demo"), nil).AllPages(context.WithoutCancel(t.Context()))
				return err == nil
			})
		}
	}}
}

// configured starts a part of the control plane again with other settings of a section, until the test ends.
func (c *testCloud) configured(t *testing.T, part, section string, values map[string]any) {
	t.Helper()
	s := c.settingsOf(t, part)
	t.Cleanup(func() { s.restore(t) })
	s.with(t, map[string]map[string]any{section: values})
}

// TPM-08: a server with a vTPM is refused at once where the cloud's catalog has no object store for the day on
// which it is shelved, and where the object store does not answer. Others need none.
func TestVTPMNeedsAnObjectStore(t *testing.T) {
	backends(t, openStack)
	c := ownCloud(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	cloud := c.cloudSettings(t)
	defer cloud.restore(t)
	for name, objects := range map[string]map[string]any{
		"not in the catalog": {"region": "another"}, "does not answer": {"endpoint": gone.URL + "/v1/AUTH_$(project_id)s"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud.with(t, map[string]map[string]any{"objects": objects})
			_, err := c.tryCreateOf(t, "-demo", tpmAlone, c.idler)
			require.True(t, gophercloud.ResponseCodeIs(err, http.StatusServiceUnavailable), "%v", err)
			require.ErrorContains(t, err, "The object store is not available: servers with a vTPM need one to be shelved.")
			require.Empty(t, listed(t, c.compute(t, "-demo"), servers.ListOpts{Name: "testvtpmneedsanobjectstore"}))
		})
	}
	c.becomes(t, c.createIdle(t, encrypted), "ACTIVE")
}

// requests are those that a service of the real cloud is asked.
type requests struct {
	address string // through which it is asked
	mu      sync.Mutex
	lines   []string
}

// requestsTo stands before a service until the test ends.
func (c *testCloud) requestsTo(t *testing.T, open func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)) *requests {
	t.Helper()
	to, err := url.Parse(c.service(t, "-demo", open).Endpoint)
	require.NoError(t, err)
	r := &requests{}
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host})
		p.Out.Host = p.In.Host // of which the service makes links
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		r.lines = append(r.lines, request.Method+" "+request.URL.String())
		r.mu.Unlock()
		proxy.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	r.address = server.URL
	return r
}

// taken counts, since the last time, the requests for secrets to be made and those that name a server, its
// vTPM's key, or what is asked to see whether there is a store.
func (r *requests) taken(server, key string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for _, line := range r.lines {
		method, rest, _ := strings.Cut(line, " ")
		switch {
		case method == http.MethodPost && strings.HasSuffix(rest, "/secrets"):
			counts["POST secrets"]++
		case key != "" && strings.Contains(rest, key):
			counts[method+" the key"]++
		case strings.Contains(rest, server):
			counts[method+" by name"]++
		case strings.HasSuffix(rest, "/check."):
			counts[method+" to see whether it may be stored"]++
		case strings.Contains(rest, "limit=1") && !strings.Contains(rest, "secrets"):
			counts[method+" the account"]++
		}
	}
	r.lines = nil
	return counts
}

// TPM-09, TPM-10, TPM-11, TPM-41: when a guest is about to start, the id of its vTPM's key is on record, and libvirt has
// the key as a secret of that id, private and in its memory alone, and has it no more when the guest runs. The key is 384
// random bytes, and its owner's own secret: the user's token made it.
// What a vTPM adds to a create, to each start, to a shelve, an unshelve and a delete, in calls of libvirt and requests to key manager
// and object store, is what docs/vtpm.md says, and the second of each costs what the first did. EE-25: the key of the root
// disk of a server that is shelved is deleted once, with the server.
func TestWhatAVTPMAddsToAServer(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	var keyManager, objectStore *requests
	if c.real != nil {
		keyManager, objectStore = c.requestsTo(t, openstack.NewKeyManagerV1), c.requestsTo(t, openstack.NewObjectStorageV1)
		c.withoutContainer(t, "-demo")
		cloud := c.cloudSettings(t)
		defer cloud.restore(t)
		cloud.with(t, map[string]map[string]any{
			"keys": {"endpoint": keyManager.address}, "objects": {"endpoint": objectStore.address + "/v1/AUTH_$(project_id)s"},
		})
	}
	socket := filepath.Join(c.dir, "relay")
	relay := libvirttest.Listen(t, socket, c.Host(1).LibvirtSocket())
	host := c.hostSettings(t)
	defer host.restore(t)
	host.with(t, map[string]map[string]any{"host": {"libvirt_socket": socket}})

	type none = map[string]int
	costs := func(id, key string, calls []int, keys, objects map[string]int) {
		t.Helper()
		require.Equal(t, calls, relay.TakenOfSecrets()[:5], "look for the id, for the use, define, set, undefine")
		if c.real != nil {
			require.Equal(t, keys, keyManager.taken(id, key))
			require.Equal(t, objects, objectStore.taken(id, key))
		}
	}
	nothing, secret := make([]int, 5), []int{1, 1, 1, 1, 1}
	relay.Taken()
	plain := c.createIdle(t, unspoken)
	c.becomes(t, plain, "ACTIVE")
	c.shutOff(t, plain)
	c.startAgain(t, plain)
	c.delete(t, plain)
	costs(plain, "", nothing, none{}, none{})

	starts := relay.HoldStarts(t)
	id := c.createIdle(t, tpmAlone)
	await.For(t, "the guest is about to start", func() bool {
		select {
		case <-starts.Reached:
			return true
		default:
			return false
		}
	}, c.progress(id))
	key := c.systemMetadata(t, id, compute.SystemTPMSecret)
	c.requireLent(t, id, key)
	relay.Release(starts)
	c.becomes(t, id, "ACTIVE")
	c.noSecretIsLent(t, id)
	c.requireTPM(t, id, compute.TPM20, compute.TPMTIS)
	c.isItsOwners(t, key)
	costs(id, key, secret, none{"POST secrets": 2, "GET by name": 3, "PUT the key": 1, "GET the key": 1}, none{"PUT to see whether it may be stored": 1, "GET the account": 1})
	for range 2 {
		c.shutOff(t, id)
		c.startAgain(t, id)
		costs(id, key, secret, none{"GET the key": 1}, none{})
	}
	c.delete(t, id)
	costs(id, key, nothing, none{"DELETE the key": 1, "GET by name": 1}, none{})
	if c.real != nil {
		id = c.createIdle(t, encryptedTIS)
		c.becomes(t, id, "ACTIVE")
		root := c.disks(t, id)[0].Secret
		for measured, round := 0, 0; measured < 2; round++ {
			require.Less(t, round, 6, "hardly an attempt is the only one")
			objectStore.taken(id, "")
			c.shelve(t, id)
			shelved, once := objectStore.taken(id, ""), c.triedOnce(t, id)
			c.unshelve(t, id)
			unshelved := objectStore.taken(id, "")
			if !once || !c.triedOnce(t, id) { // on a busy machine, an attempt that took too long is made again
				continue
			}
			if measured == 0 {
				delete(shelved, "GET the account") // before the project's first upload
			}
			require.Equal(t, none{"PUT to see whether it may be stored": 1, "HEAD by name": 1, "PUT by name": 2, "GET by name": 5}, shelved)
			require.Equal(t, none{"GET by name": 4, "DELETE by name": 2}, unshelved)
			measured++
		}
		c.shelve(t, id)
		objectStore.taken(id, "")
		keyManager.taken(id, root)
		c.delete(t, id)
		require.Equal(t, 1, keyManager.taken(id, root)["DELETE the key"])
		require.Equal(t, none{"GET by name": 2, "DELETE by name": 2}, objectStore.taken(id, ""))
	}
	c.nothingIsLeft(t)
}

// triedOnce reports whether each activity of a server's newest operation succeeded at its first attempt.
func (c *testCloud) triedOnce(t *testing.T, id string) bool {
	t.Helper()
	return !slices.ContainsFunc(c.history(t, id), func(e *historypb.HistoryEvent) bool {
		return e.GetActivityTaskStartedEventAttributes().GetAttempt() > 1
	})
}

// isItsOwners requires that a vTPM's key is a secret that the user made, and that he reads: 384 bytes, in base64.
func (c *testCloud) isItsOwners(t *testing.T, key string) {
	t.Helper()
	if c.real == nil {
		return
	}
	client := c.service(t, "-demo", openstack.NewKeyManagerV1)
	secret, err := secrets.Get(t.Context(), client, key).Extract()
	require.NoError(t, err)
	me, _ := cloudtest.Who(t, client.ProviderClient)
	require.Equal(t, me, secret.CreatorID)
	value, err := secrets.GetPayload(t.Context(), client, key, secrets.GetPayloadOpts{PayloadContentType: "text/plain"}).Extract()
	require.NoError(t, err)
	random, err := base64.StdEncoding.DecodeString(string(value))
	require.NoError(t, err)
	require.Len(t, random, 384)
}

// withoutContainer deletes the container that strongroom makes in a project at its first upload: before that, it asks the
// object store one thing more.
func (c *testCloud) withoutContainer(t *testing.T, user string) {
	t.Helper()
	err := containers.Delete(t.Context(), c.service(t, user, openstack.NewObjectStorageV1), swift.Container).Err
	if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		require.NoError(t, err)
	}
}

// requireLent requires that libvirt knows a vTPM's key, of a server that does not run yet: as a secret of
// the key's id, which nobody can read and no file has.
func (c *testCloud) requireLent(t *testing.T, id, key string) {
	t.Helper()
	require.NotEmpty(t, key)
	has := c.remains(t, c.Host(1), id)
	require.False(t, has.Running)
	require.Equal(t, 1, has.Secrets)
	conn := libvirt.NewWithDialer(hypervisor{c.Host(1)})
	require.NoError(t, conn.Connect())
	defer func() { _ = conn.Disconnect() }()
	lent, err := conn.SecretLookupByUUID(libvirt.UUID(uuid.MustParse(key)))
	require.NoError(t, err)
	doc, err := conn.SecretGetXMLDesc(lent, 0)
	require.NoError(t, err)
	var said libvirtxml.Secret
	require.NoError(t, said.Unmarshal(doc))
	said.XMLName = xml.Name{}
	require.Equal(t, libvirtxml.Secret{
		Ephemeral: "yes", Private: "yes", UUID: key, Usage: &libvirtxml.SecretUsage{Type: "vtpm", Name: id},
	}, said)
	_, err = conn.SecretGetValue(lent, 0)
	require.ErrorContains(t, err, "is private")
	files, err := filepath.Glob(filepath.Join(c.State, "libvirt", "etc", "secrets", "*"))
	require.NoError(t, err)
	require.Empty(t, files)
}
