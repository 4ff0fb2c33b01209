package manila_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/share"
	"strongroom/activities/share/manila"
	"strongroom/compute"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/cloudtest"
)

// bench is a project with a share.
type bench struct {
	*testing.T
	service  *manila.Service
	provider *gophercloud.ProviderClient
	client   *gophercloud.ServiceClient
	project  cloudtest.Project
	cred     compute.Credential
	share    share.Share
}

func setup(t *testing.T, shareType string, protocol share.Protocol) bench {
	t.Helper()
	l := logins{}
	project := cloudtest.NewProject(t)
	provider := project.Login(t)
	cred := l.add(t, provider)
	client, err := gopher.NewSharedFileSystemV2(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	client.Microversion = "2.45"
	return bench{
		T: t, service: &manila.Service{Clients: l}, provider: provider, client: client, project: project, cred: cred,
		share: newShare(t, provider, shareType, protocol),
	}
}

// locks reports whether the Manila of the test has locks, which a newer one must have (see
// cloud.ManilaRootVariable).
func (b bench) locks() bool {
	b.Helper()
	plain := *b.client
	plain.Microversion = ""
	pages, err := apiversions.List(&plain).AllPages(b.Context())
	require.NoError(b, err)
	versions, err := apiversions.ExtractAPIVersions(pages)
	require.NoError(b, err)
	newest := versions[len(versions)-1].Version
	yes := len(newest) == 4 && newest >= "2.82"
	require.Equal(b, os.Getenv(cloud.ManilaRootVariable) != "", yes, "Manila %s", newest)
	return yes
}

func (b bench) input(to share.Grantee) share.AllowInput {
	return share.AllowInput{Credential: b.cred, Share: b.share.ID, Server: compute.ServerID{UUID: uuid.New()}, To: to, Level: share.ReadWrite}
}

func (b bench) allow(in share.AllowInput) share.Rule {
	b.Helper()
	rule, err := b.service.Allow(b.Context(), in)
	require.NoError(b, err)
	return rule
}

func (b bench) deny(in share.AllowInput) {
	b.Helper()
	require.NoError(b, b.service.Deny(b.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server, To: &in.To}))
}

var somebody = share.Grantee{Kind: share.Address, Name: "192.0.2.7"}

// A user's own rule for the same host is not ours.
func TestOthersRulesAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.DummyShares, share.NFS)
	foreign, err := shares.GrantAccess(t.Context(), b.client, b.share.ID.String(),
		shares.GrantAccessOpts{AccessType: "ip", AccessTo: somebody.Name, AccessLevel: "rw"}).Extract()
	require.NoError(t, err)
	in := b.input(somebody)
	_, err = b.service.Allow(t.Context(), in)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, foreign.ID)
	b.deny(in)
	rules, err := b.service.List(t.Context(), b.cred)
	require.NoError(t, err)
	require.Empty(t, rules)
	response, err := b.client.Get(t.Context(), b.client.ServiceURL("share-access-rules", foreign.ID), nil, nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// Users can take a rule's metadata away. The id in the ledger still finds it.
func TestARuleWithoutItsMarks(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.DummyShares, share.NFS)
	in := b.input(somebody)
	rule := b.allow(in)
	for _, key := range []string{"strongroom", "strongroom-server-" + in.Server.String()} {
		response, err := b.client.Delete(t.Context(), b.client.ServiceURL("share-access-rules", rule.ID.String(), "metadata", key),
			&gophercloud.RequestOpts{OkCodes: []int{200}})
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	require.NoError(t, b.service.Deny(t.Context(), share.DenyInput{Credential: b.cred, Share: in.Share, Server: in.Server, Rule: &rule.ID}))
	b.allow(in) // would be a conflict if it were there
	b.deny(in)  // its locks would keep the share
}

// Where Manila has no locks (before 2.82) users can remove the share below a server. Nothing is left to
// deny.
func TestAShareThatWasTakenAway(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.DummyShares, share.NFS)
	in := b.input(somebody)
	b.allow(in)
	if b.locks() {
		require.True(t, gophercloud.ResponseCodeIs(shares.Delete(t.Context(), b.client, b.share.ID.String()).ExtractErr(), http.StatusForbidden))
		b.deny(in)
	}
	cloudtest.RemoveShare(t, b.provider, b.share.ID.String())
	b.deny(in)
}

// revocation is the request to end a rule.
type revocation map[string]any

// ToRevokeAccessMap is its body.
func (r revocation) ToRevokeAccessMap() (map[string]any, error) {
	return map[string]any{"deny_access": r}, nil
}

// SH-08: where Manila has locks, nobody of the project, not who attached the share either, sees whom a
// rule lets in, or ends it, or its lock, or deletes the share, whatever he says; who was let in has a
// key, and strongroom finds and ends the rule. Where it has none, all of the project see the rule.
func TestSH08WhatUsersCanDoToARule(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.DummyShares, share.NFS)
	in := b.input(somebody)
	rule := b.allow(in)
	colleague, err := gopher.NewSharedFileSystemV2(b.project.Login(t), cloudtest.Endpoint)
	require.NoError(t, err)
	own, err := gopher.NewSharedFileSystemV2(cloudtest.Login(t, cloud.Service), cloudtest.Endpoint)
	require.NoError(t, err)
	own.Microversion = "2.82"
	for _, user := range []*gophercloud.ServiceClient{b.client, colleague} {
		var seen struct {
			Access struct {
				To    string `json:"access_to"`
				State string
			}
		}
		user.Microversion = "2.45"
		response, err := user.Get(t.Context(), user.ServiceURL("share-access-rules", rule.ID.String()), &seen, nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, share.StateActive, seen.Access.State)
		if !b.locks() {
			require.Equal(t, somebody.Name, seen.Access.To)
			continue
		}
		require.Equal(t, "******", seen.Access.To)
		user.Microversion = "2.82"
		for _, how := range []revocation{{"access_id": rule.ID}, {"access_id": rule.ID, "unrestrict": true}} {
			err := shares.RevokeAccess(t.Context(), user, b.share.ID.String(), how).ExtractErr()
			require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v: %v", how, err)
		}
		require.True(t, gophercloud.ResponseCodeIs(shares.Delete(t.Context(), user, b.share.ID.String()).ExtractErr(), http.StatusForbidden))
		var locks struct {
			Locks []struct {
				ID     string
				Reason string `json:"lock_reason"`
			} `json:"resource_locks"`
		}
		response, err = own.Get(t.Context(), own.ServiceURL("resource-locks")+"?all_projects=true&resource_id="+b.share.ID.String(), &locks, nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Len(t, locks.Locks, 1)
		require.Contains(t, locks.Locks[0].Reason, rule.ID.String(), "it says what it is for")
		refused, err := user.Delete(t.Context(), user.ServiceURL("resource-locks", locks.Locks[0].ID), nil)
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden) || gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
		require.NoError(t, refused.Body.Close())
	}
	rules, err := b.service.List(t.Context(), b.cred)
	require.NoError(t, err)
	require.Len(t, rules, 1)
	require.Equal(t, somebody, rules[0].To)
	b.deny(in)
	b.client.Microversion = "2.45"
	cloudtest.RemoveShare(t, b.provider, b.share.ID.String()) // no lock is left
}

func TestProtocolsThatNoHostMounts(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.DummyShares, "CIFS")
	_, err := b.service.Allow(t.Context(), b.input(somebody))
	require.Equal(t, compute.Conflict, compute.KindOf(err))
	require.EqualError(t, err, "Share protocol CIFS is not supported.")
	_, err = (&share.Activities{Service: b.service}).Look(t.Context(), share.LookInput{Credential: b.cred, Share: b.share.ID})
	require.Equal(t, compute.Conflict, compute.KindOf(err))
}

// Whoever may see a public share may not open it, and a private one is not seen.
func TestSharesOfOthers(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.DummyShares, share.NFS)
	admin, err := gopher.NewSharedFileSystemV2(cloudtest.Login(t, "admin"), cloudtest.Endpoint)
	require.NoError(t, err)
	admin.Microversion = "2.45"
	l := logins{}
	operator := l.add(t, admin.ProviderClient)
	_, err = (&manila.Service{Clients: l}).Get(t.Context(), operator, b.share.ID)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "an administrator sees no more than others: %v", err)
	public := true
	require.NoError(t, shares.Update(t.Context(), admin, b.share.ID.String(), shares.UpdateOpts{IsPublic: &public}).Err)

	stranger := l.add(t, cloudtest.NewProject(t).Login(t))
	s := &manila.Service{Clients: l}
	seen, err := s.Get(t.Context(), stranger, b.share.ID)
	require.NoError(t, err)
	require.Equal(t, b.cred.ProjectID, seen.ProjectID)
	in := b.input(somebody)
	in.Credential = stranger
	_, err = s.Allow(t.Context(), in)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	err = s.Deny(t.Context(), share.DenyInput{Credential: stranger, Share: in.Share, Server: in.Server})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	_, err = s.Locations(t.Context(), stranger, b.share.ID)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	rules, err := s.List(t.Context(), stranger)
	require.NoError(t, err)
	require.Empty(t, rules)
}

// A rule that the storage refuses is a conflict that says where to look, and goes.
func TestARuleThatTheStorageRefuses(t *testing.T) {
	t.Parallel()
	cloudtest.OpenCeph(t)
	b := setup(t, cloudtest.CephFSShares, share.CephFS)
	in := b.input(share.Grantee{Kind: share.CephUser, Name: "mds-of-somebody-else"})
	other := setup(t, cloudtest.CephFSShares, share.CephFS)
	theirs := other.input(in.To)
	other.allow(theirs)
	_, err := b.service.Allow(t.Context(), in) // the name is the other project's
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "manila-share")
	rules, err := b.service.List(t.Context(), b.cred)
	require.NoError(t, err)
	require.Len(t, rules, 1)
	require.Equal(t, share.StateError, rules[0].State)
	b.deny(in)
	rules, err = b.service.List(t.Context(), b.cred)
	require.NoError(t, err)
	require.Empty(t, rules)
	other.deny(theirs)
}

// A rule's key mounts the share, a read-only one refuses to write, and a rule that
// goes takes the mount's access with it.
func TestTheKeyMounts(t *testing.T) {
	t.Parallel()
	ceph := cloudtest.OpenCeph(t)
	b := setup(t, cloudtest.CephFSShares, share.CephFS)
	writer, reader := b.input(share.UserOf(compute.HostID{UUID: uuid.New()}, b.share.ID)), b.input(share.Grantee{})
	reader.To, reader.Level = share.UserOf(compute.HostID{UUID: uuid.New()}, b.share.ID), share.ReadOnly

	file := filepath.Join(b.mount(ceph, b.allow(writer)), "letter")
	require.NoError(t, os.WriteFile(file, []byte("dear"), 0o644))
	seen := filepath.Join(b.mount(ceph, b.allow(reader)), "letter")
	text, err := os.ReadFile(seen)
	require.NoError(t, err)
	require.Equal(t, "dear", string(text))
	require.ErrorIs(t, os.WriteFile(seen, nil, 0o644), unix.EACCES)

	open, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer open.Close()
	b.deny(writer)
	require.Eventually(t, func() bool {
		_, err := open.WriteAt([]byte("sir"), 0)
		if err == nil {
			err = open.Sync()
		}
		return err != nil
	}, time.Minute, 50*time.Millisecond, "whoever is shut out cannot write")
	text, err = os.ReadFile(seen)
	require.NoError(t, err, "the other rule is untouched")
	require.Len(t, text, 4)
	b.deny(reader)
	require.Eventually(t, func() bool {
		_, err := os.ReadFile(seen)
		return err != nil
	}, time.Minute, 50*time.Millisecond, "whoever is shut out cannot read")
}

// mount mounts the share as the rule's user, with the rule's key.
func (b bench) mount(ceph cloudtest.Ceph, rule share.Rule) (folder string) {
	b.Helper()
	locations, err := b.service.Locations(b.Context(), b.cred, b.share.ID)
	require.NoError(b, err)
	key, err := b.service.AccessKey(b.Context(), b.cred, b.share.ID, rule.To)
	require.NoError(b, err)
	defer key.Wipe()
	require.NoError(b, key.Use(func(value []byte) error {
		folder = ceph.Mount(b, locations[0].Path(), rule.To.Name, string(value))
		return nil
	}))
	return folder
}
