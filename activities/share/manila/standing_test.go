package manila_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/activities/share/manila"
	"strongroom/compute"
)

// many is a Manila of many shares that counts what it is asked, and may answer otherwise by share.
type many struct {
	ids      []share.ID
	unlisted map[share.ID]bool
	owner    map[share.ID]string // of other projects
	shares   map[share.ID]int    // status of the answer to a question for a share
	rules    map[share.ID]int    // and for its rules
	listing  int                 // and for the list
	mu       sync.Mutex
	asked    map[string]int
}

func (m *many) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(what string, status int, body map[string]any) {
		m.asked[what]++
		if status != 0 {
			w.WriteHeader(status)
			return
		}
		_ = json.NewEncoder(w).Encode(body)
	}
	doc := func(id share.ID) map[string]any {
		project := fakeProject
		if other := m.owner[id]; other != "" {
			project = other
		}
		return map[string]any{"id": id.String(), "project_id": project, "is_public": true, "share_proto": "CEPHFS", "status": "available", "size": 1}
	}
	switch path := strings.TrimPrefix(r.URL.Path, "/v2"); {
	case path == "/shares/detail":
		page := []any{}
		from, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		most, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		for _, id := range m.ids[min(from, len(m.ids)):min(from+most, len(m.ids))] {
			if !m.unlisted[id] {
				page = append(page, doc(id))
			}
		}
		answer("list", m.listing, map[string]any{"shares": page})
	case path == "/share-access-rules":
		id := share.ID{UUID: uuid.MustParse(r.URL.Query().Get("share_id"))}
		answer("rules", m.rules[id], map[string]any{"access_list": []any{map[string]any{
			"id": uuid.NewString(), "access_type": "cephx", "access_to": "a", "access_level": "ro", "state": "applying",
		}}})
	default:
		id := share.ID{UUID: uuid.MustParse(strings.TrimPrefix(path, "/shares/"))}
		answer("share", m.shares[id], map[string]any{"share": doc(id)})
	}
}

func openMany(t *testing.T, shares int) (*many, *manila.Service, compute.Credential) {
	t.Helper()
	m := &many{unlisted: map[share.ID]bool{}, owner: map[share.ID]string{}, shares: map[share.ID]int{}, rules: map[share.ID]int{}, asked: map[string]int{}}
	for range shares {
		m.ids = append(m.ids, share.ID{UUID: uuid.New()})
	}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	client := &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "canary-token"}, Endpoint: server.URL + "/v2/", Type: "shared-file-system"}
	return m, &manila.Service{Clients: opened{client}}, compute.Credential{ProjectID: fakeProject}
}

// SH-09: a look at shares costs a call for each of them, and one for each 500 shares of their project.
func TestSH09WhatALookCosts(t *testing.T) {
	t.Parallel()
	m, s, cred := openMany(t, 1203)
	l, err := s.Standing(t.Context(), cred, m.ids[1100:1200])
	require.NoError(t, err)
	require.Len(t, l.There, 100)
	require.Equal(t, map[string]int{"list": 3, "rules": 100}, m.asked)
	rule := l.There[m.ids[1100]][0]
	require.Equal(t, []string{"ro", "applying"}, []string{string(rule.Level), rule.State}, "as they are")
}

// SH-09: only a share that Manila says not to have, or to be another project's, is gone. Any other answer says
// nothing of the share, and nothing of others.
func TestSH09OnlyManilasWordMakesAShareGone(t *testing.T) {
	t.Parallel()
	m, s, cred := openMany(t, 12)
	deleted, moved, since, odd, torn, there := m.ids[0], m.ids[1], m.ids[2], m.ids[3], m.ids[4], m.ids[5]
	m.unlisted[deleted], m.shares[deleted] = true, http.StatusNotFound
	m.owner[moved] = "22222222222222222222222222222222"
	m.rules[since], m.shares[since] = http.StatusBadRequest, http.StatusNotFound // it is deleted after the list
	m.rules[odd] = http.StatusBadRequest                                         // and is there
	m.unlisted[torn] = true                                                      // between two pages
	want := map[share.ID]bool{deleted: true, moved: true, since: true}
	failed := map[share.ID]compute.Kind{odd: compute.Conflict}
	for i, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusConflict} {
		m.rules[m.ids[6+i]] = status
		failed[m.ids[6+i]] = []compute.Kind{compute.Unavailable, compute.Unavailable, compute.Forbidden, compute.Forbidden, compute.Unavailable, compute.Conflict}[i]
	}
	l, err := s.Standing(t.Context(), cred, m.ids)
	require.NoError(t, err)
	require.Equal(t, want, l.Gone)
	require.Len(t, l.There, 2)
	require.Contains(t, l.There, torn)
	require.Contains(t, l.There, there)
	require.Len(t, l.Failed, len(failed))
	for id, kind := range failed {
		require.Equal(t, kind, compute.KindOf(l.Failed[id]), "%v", l.Failed[id])
	}
}

// SH-09: without a list nothing is known of any share: another service, or none, may answer at Manila's address.
func TestSH09WithoutAListNothingIsKnown(t *testing.T) {
	t.Parallel()
	m, s, cred := openMany(t, 3)
	for _, status := range []int{http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError, http.StatusBadGateway} {
		m.listing, m.asked = status, map[string]int{}
		l, err := s.Standing(t.Context(), cred, m.ids)
		require.Error(t, err, status)
		require.Empty(t, l.Gone)
		require.Equal(t, map[string]int{"list": 1}, m.asked)
		require.Equal(t, status == http.StatusUnauthorized || status == http.StatusForbidden, compute.Is(err, compute.Forbidden), status)
	}
}
