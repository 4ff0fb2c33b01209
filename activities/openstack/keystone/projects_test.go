package keystone_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/activities/openstack/keystone"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// reads gives strongroom's user the role reader on the system.
func (b bench) reads(t *testing.T, a account) {
	t.Helper()
	response, err := b.admin.Put(t.Context(), b.admin.ServiceURL("system", "users", a.id, "roles", b.role(t, "reader")), nil, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent}})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// deleted makes a project with a secret of strongroom's in it and deletes it.
func (b bench) deleted(t *testing.T, cloud *keystone.Cloud, known *authorities) string {
	t.Helper()
	p, err := projects.Create(t.Context(), b.admin, projects.CreateOpts{Name: "test-" + uuid.NewString(), DomainID: "default"}).Extract()
	require.NoError(t, err)
	cred := known.add(p.ID, b.login(t, b.member(t, p.ID), p.ID).Token(), "")
	_, err = keys(cloud).Create(t.Context(), key.CreateInput{Credential: cred, Name: "test " + uuid.NewString(), Bytes: compute.DiskPassphraseBytes})
	require.NoError(t, err)
	require.NoError(t, projects.Delete(t.Context(), b.admin, p.ID).ExtractErr())
	return p.ID
}

// P21: a project that was deleted is told apart from those that are closed for another
// reason: no role in it, disabled, or nobody knows.
func TestP21AProjectThatWasDeletedIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, user, known := b.strongroom(t)
	closed, _ := b.project(t)
	disabled, _ := b.project(t)
	no := false
	_, err := projects.Update(t.Context(), b.admin, disabled, projects.UpdateOpts{Enabled: &no}).Extract()
	require.NoError(t, err)
	gone := b.deleted(t, cloud, known)
	all := []string{closed, disabled, gone, "../users", ""}

	in := compute.SeenInput{}
	for _, id := range []string{closed, disabled, gone} {
		in.Projects = append(in.Projects, compute.Access{Project: id, Credentials: []compute.Credential{compute.MemberCredential(id)}})
	}
	seen, err := (&key.Activities{Manager: keys(cloud)}).Seen(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, []string{closed, disabled, gone}, seen.Closed, "no credential opens any of them")

	// Without a role on the system Keystone refuses to tell, which says nothing.
	got, err := cloud.GoneProjects(t.Context(), all)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.Empty(t, got)
	b.reads(t, user)
	got, err = cloud.GoneProjects(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, []string{gone}, got)
}

// P21: an identity service that finds nothing, refuses everything or does not answer tells of
// no project that it is gone.
func TestP21WhatKeystoneCannotAnswerIsNotGone(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	to, err := url.Parse(b.url)
	require.NoError(t, err)
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host}) }}
	var status, good atomic.Int32 // how projects are answered, after how many good answers
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/projects/") && status.Load() != 0 && good.Add(-1) < 0 {
			w.WriteHeader(int(status.Load()))
			return
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	cloud, user, known := b.strongroom(t, func(cfg *keystone.Config) { cfg.AuthURL = front.URL + to.Path })
	b.reads(t, user)
	gone := b.deleted(t, cloud, known)
	project, _ := b.project(t)
	for _, answer := range []int{http.StatusNotFound, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		for answered := range int32(2) { // of the first requests: that for strongroom's own project is one
			status.Store(int32(answer))
			good.Store(answered)
			got, err := cloud.GoneProjects(t.Context(), []string{project})
			require.False(t, err == nil && len(got) > 0, "%d after %d: %v", answer, answered, got)
		}
	}
	status.Store(0)
	got, err := cloud.GoneProjects(t.Context(), []string{project, gone})
	require.NoError(t, err)
	require.Equal(t, []string{gone}, got)
}
