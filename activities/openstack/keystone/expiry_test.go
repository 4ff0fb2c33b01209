package keystone_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/activities/openstack"
	"strongroom/compute"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// life is that of a token: short, yet long enough for a request on a busy machine.
const life = 20 * time.Second

// TestShortLives runs in a cloud of its own, whose tokens live for seconds.
func TestShortLives(t *testing.T) {
	t.Parallel()
	cloudtest.Open(t) // where there is a cloud, there are the packages
	dir, err := os.MkdirTemp("/tmp", "sr-ks-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	starting, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	running, err := cloud.Start(starting, cloud.Config{Dir: dir, Services: []string{"keystone", "barbican"}, TokenExpiry: life})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, running.Stop(context.Background())) })
	b := setup(t, running.CloudsFile())
	t.Run("while it runs", func(t *testing.T) { // returns once its parallel tests are through
		t.Run("an expired token", func(t *testing.T) { expiredToken(t, b) })
		t.Run("a revoked token", func(t *testing.T) { revokedToken(t, b) })
		t.Run("a client in use", func(t *testing.T) { renewal(t, b) })
		t.Run("a service that misbehaves", func(t *testing.T) { misbehaviour(t, b) })
	})
	without(t, b, running)
}

// expiredToken: beside strongroom's own token a user's goes on to be good.
func expiredToken(t *testing.T, b bench) {
	t.Parallel()
	ours, _, known := b.strongroom(t)
	project, _ := b.project(t)
	provider := b.login(t, b.member(t, project), project)
	cred := known.add(project, provider.Token(), "")
	in := key.CreateInput{Credential: cred, Name: "before", Bytes: compute.DiskPassphraseBytes}
	id, err := keys(ours).Create(t.Context(), in)
	require.NoError(t, err)
	time.Sleep(life + time.Second)

	alone, err := gopher.NewKeyManagerV1(provider, gophercloud.EndpointOpts{})
	require.NoError(t, err)
	response, err := alone.Get(t.Context(), alone.ServiceURL("secrets"), nil, nil)
	require.ErrorContains(t, err, "401")
	_ = response.Body.Close()

	p, err := keys(ours).Passphrase(t.Context(), cred, id)
	require.NoError(t, err)
	p.Wipe()
	works(t, ours, cred)
	another, _, elsewhere := b.strongroom(t) // which sees the token for the first time
	cred = elsewhere.add(project, provider.Token(), "")
	require.NoError(t, keys(another).Delete(t.Context(), key.DeleteInput{Credential: cred, Name: in.Name, ID: &id}))
}

func revokedToken(t *testing.T, b bench) {
	t.Parallel()
	ours, _, known := b.strongroom(t)
	project, _ := b.project(t)
	owner := b.member(t, project)
	revoked, fresh := b.login(t, owner, project).Token(), known.add(project, b.login(t, owner, project).Token(), "")
	cred := known.add(project, revoked, "")
	works(t, ours, cred)
	b.revoke(t, revoked)
	refused(t, ours, cred)
	works(t, ours, fresh) // another token of the same user
}

// renewal: a client outlives the tokens that it was made with, whoever it acts for.
func renewal(t *testing.T, b bench) {
	t.Parallel()
	ours, _, known := b.strongroom(t)
	project, _ := b.project(t)
	owner := b.member(t, project)
	creds := []compute.Credential{
		compute.DeploymentCredential(), known.add(project, b.login(t, owner, project).Token(), ""),
		known.add(project, "", b.trust(t, owner, project, ours.User())),
	}
	var all []*gophercloud.ServiceClient
	for _, cred := range creds {
		client, err := ours.Clients("key-manager").Client(t.Context(), cred)
		require.NoError(t, err)
		all = append(all, client)
	}
	for begin := time.Now(); time.Since(begin) < 2*life; time.Sleep(life / 8) {
		for i, client := range all {
			response, err := client.Get(t.Context(), client.ServiceURL("secrets"), nil, nil)
			require.NoError(t, err, "credential %d after %v", i, time.Since(begin))
			require.NoError(t, response.Body.Close())
		}
	}
}

// misbehaviour: what a real service can hardly be made to do.
func misbehaviour(t *testing.T, b bench) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string][]http.Header{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path] = append(seen[r.URL.Path], r.Header)
		switch r.URL.Path {
		case "/v2/refuses":
			w.WriteHeader(http.StatusUnauthorized)
		case "/v2/redirects":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "/v2/down":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	b.service(t, "sharev2", server.URL+"/v2")
	ours, _, known := b.strongroom(t)
	project, _ := b.project(t)
	owner := b.member(t, project)
	token := b.login(t, owner, project).Token()
	byToken, byTrust := known.add(project, token, ""), known.add(project, "", b.trust(t, owner, project, ours.User()))
	ask := func(cred compute.Credential, path string) error {
		client, err := ours.Clients("sharev2").Client(t.Context(), cred)
		require.NoError(t, err)
		response, err := client.Post(t.Context(), client.ServiceURL(path), map[string]string{"a": "b"}, nil, nil)
		if response != nil {
			_ = response.Body.Close()
		}
		return openstack.Error(err, "ask")
	}

	require.Equal(t, compute.Forbidden, compute.KindOf(ask(byToken, "refuses")))
	require.Len(t, seen["/v2/refuses"], 2, "a second 401 stands")
	for _, header := range seen["/v2/refuses"] {
		require.Equal(t, token, header.Get("X-Auth-Token"))
	}
	first, second := seen["/v2/refuses"][0].Get("X-Service-Token"), seen["/v2/refuses"][1].Get("X-Service-Token")
	require.NotEmpty(t, first)
	require.NotEmpty(t, second)
	require.NotEqual(t, first, second)

	require.Equal(t, compute.Forbidden, compute.KindOf(ask(byTrust, "refuses")))
	require.Len(t, seen["/v2/refuses"], 4)
	third, fourth := seen["/v2/refuses"][2].Get("X-Service-Token"), seen["/v2/refuses"][3].Get("X-Service-Token")
	require.Equal(t, second, third, "of shares locks hide from users what they show to strongroom")
	require.NotEmpty(t, fourth)
	require.NotEqual(t, third, fourth)
	require.NotEqual(t, seen["/v2/refuses"][2].Get("X-Auth-Token"), seen["/v2/refuses"][3].Get("X-Auth-Token"))

	require.Equal(t, compute.Unavailable, compute.KindOf(ask(byTrust, "down")))
	require.Len(t, seen["/v2/down"], 1)
	require.Error(t, ask(byToken, "redirects"))
	require.Empty(t, seen["/elsewhere"], "no token goes where a service points")
}

// service puts a service into the catalog.
func (b bench) service(t *testing.T, kind, address string) {
	t.Helper()
	s, err := services.Create(t.Context(), b.admin, services.CreateOpts{Type: kind}).Extract()
	require.NoError(t, err)
	_, err = endpoints.Create(t.Context(), b.admin, endpoints.CreateOpts{
		Availability: gophercloud.AvailabilityPublic, Region: cloud.Region, URL: address, ServiceID: s.ID, Name: kind,
	}).Extract()
	require.NoError(t, err)
}

// without: the key manager is down, and then the identity service hangs.
func without(t *testing.T, b bench, running *cloud.Cloud) {
	t.Helper()
	ours, _, known := b.strongroom(t)
	project, _ := b.project(t)
	owner := b.member(t, project)
	byTrust, byToken := known.add(project, "", b.trust(t, owner, project, ours.User())), known.add(project, b.login(t, owner, project).Token(), "")
	require.NoError(t, keys(ours).Check(t.Context(), byTrust))
	require.NoError(t, keys(ours).Check(t.Context(), byToken))
	require.NoError(t, running.Process("barbican").Stop(t.Context()))
	for _, cred := range []compute.Credential{byTrust, byToken, compute.DeploymentCredential()} {
		err := keys(ours).Check(t.Context(), cred)
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	}

	require.NoError(t, running.Process("keystone").Signal(syscall.SIGSTOP))
	time.Sleep(life)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := ours.Clients("key-manager").Client(ctx, byTrust)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.NoError(t, running.Process("keystone").Signal(syscall.SIGCONT))
	_, err = ours.Clients("key-manager").Client(t.Context(), byTrust)
	require.NoError(t, err)
}
