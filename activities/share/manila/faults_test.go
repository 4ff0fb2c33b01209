package manila_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/activities/share/manila"
	"strongroom/compute"
)

// fake is a Manila of one share for what the real one at hand does not show: microversions, a policy
// that hides what is locked from everybody, and faults. It keeps rules and locks as they are asked for.
type fake struct {
	share   share.ID
	newest  string // microversion
	answer  int    // instead of any other, with Retry-After
	state   string // of new rules
	mu      sync.Mutex
	hides   bool   // what is locked, from all
	refuses string // on what no lock can be made
	listed  func() // after the rules were listed
	rules   []map[string]any
	locks   []map[string]any
	asked   []map[string]any // bodies of the actions
	version []string         // with which they came
}

const fakeProject = "11111111111111111111111111111111"

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	reply := func(body any) { _ = json.NewEncoder(w).Encode(body) }
	switch {
	case r.URL.Path == "/":
		w.WriteHeader(http.StatusMultipleChoices)
		reply(map[string]any{"versions": []any{
			map[string]any{"id": "v1.0", "version": ""}, map[string]any{"id": "v2.0", "min_version": "2.0", "version": f.newest},
		}})
	case f.answer != 0:
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(f.answer)
		_, _ = fmt.Fprint(w, "canary: you sent a key")
	case strings.Contains(r.URL.Path, "/resource-locks"):
		f.version = append(f.version, r.Header.Get("X-OpenStack-Manila-API-Version"))
		f.lock(w, r)
	case r.Method == http.MethodPost:
		var body map[string]map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		f.version = append(f.version, r.Header.Get("X-OpenStack-Manila-API-Version"))
		if rule := body["allow_access"]; rule != nil {
			f.asked = append(f.asked, rule)
			f.rules = append(f.rules, map[string]any{
				"id": uuid.NewString(), "access_type": rule["access_type"], "access_to": rule["access_to"],
				"access_level": rule["access_level"], "state": f.state, "metadata": rule["metadata"],
			})
			reply(map[string]any{"access": f.rules[len(f.rules)-1]})
			return
		}
		rule := body["deny_access"]
		f.asked = append(f.asked, rule)
		f.rules = slices.DeleteFunc(f.rules, func(have map[string]any) bool { return have["id"] == rule["access_id"] })
		w.WriteHeader(http.StatusAccepted)
	case strings.HasSuffix(r.URL.Path, "/share-access-rules"):
		reply(map[string]any{"access_list": f.shown()})
		if f.listed != nil {
			f.listed()
		}
	default:
		reply(map[string]any{"share": map[string]any{
			"id": f.share.String(), "project_id": fakeProject, "share_proto": "NFS", "status": "available", "size": 1,
		}})
	}
}

// lock lists, makes and removes locks.
func (f *fake) lock(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		var body map[string]map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		lock := body["resource_lock"]
		if lock["resource_type"] == f.refuses {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		lock["id"], lock["project"] = uuid.NewString(), "strongroom's"
		f.locks = append(f.locks, lock)
		_ = json.NewEncoder(w).Encode(body)
	case http.MethodDelete:
		f.locks = slices.DeleteFunc(f.locks, func(have map[string]any) bool { return strings.HasSuffix(r.URL.Path, have["id"].(string)) })
		w.WriteHeader(http.StatusNoContent)
	default:
		of := slices.DeleteFunc(slices.Clone(f.locks), func(have map[string]any) bool {
			return have["resource_id"] != r.FormValue("resource_id") || have["project"] == nil && r.FormValue("all_projects") == ""
		})
		_ = json.NewEncoder(w).Encode(map[string]any{"resource_locks": of})
	}
}

// shown are the rules as whoever asks sees them.
func (f *fake) shown() []map[string]any {
	seen := []map[string]any{}
	for _, rule := range f.rules {
		shown := maps.Clone(rule)
		if f.hides && slices.ContainsFunc(f.locks, func(l map[string]any) bool { return l["resource_id"] == rule["id"] && l["resource_action"] == "show" }) {
			shown["access_to"] = "******"
		}
		seen = append(seen, shown)
	}
	return seen
}

// opened is the fake behind an address.
type opened struct{ *gophercloud.ServiceClient }

func (o opened) Client(context.Context, compute.Credential) (*gophercloud.ServiceClient, error) {
	return o.ServiceClient, nil
}

func open(t *testing.T, f *fake) (*manila.Service, share.AllowInput) {
	t.Helper()
	f.share = share.ID{UUID: uuid.New()}
	if f.newest == "" {
		f.newest = "2.89"
	}
	if f.state == "" {
		f.state = share.StateActive
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	client := &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{TokenID: "canary-token"}, Endpoint: server.URL + "/v2/", Type: "shared-file-system",
	}
	return &manila.Service{Clients: opened{client}, Patience: 300 * time.Millisecond}, share.AllowInput{
		Credential: compute.Credential{ProjectID: fakeProject}, Share: f.share,
		Server: compute.ServerID{UUID: uuid.New()}, To: somebody, Level: share.ReadWrite,
	}
}

// Where there are locks, there are some on the rule and on the share once a server is let in, which
// name the rule, and none when it is not (SH-08, SH-09).
func TestLocks(t *testing.T) {
	t.Parallel()
	for newest, locked := range map[string]bool{"2.45": false, "2.73": false, "2.81": false, "2.82": true, "2.89": true, "3.0": true} {
		f := &fake{newest: newest}
		s, in := open(t, f)
		rule, err := s.Allow(t.Context(), in)
		require.NoError(t, err)
		var on []any
		for _, l := range f.locks {
			require.Equal(t, "strongroom: servers use access rule "+rule.ID.String(), l["lock_reason"])
			on = append(on, fmt.Sprint(l["resource_type"], " ", l["resource_action"], " ", l["resource_id"]))
		}
		f.locks = append(f.locks, map[string]any{
			"id": "of a user", "resource_id": in.Share.String(), "resource_action": "delete", "lock_reason": "strongroom: servers use access rule " + uuid.NewString(),
		})
		_, err = s.Allow(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, f.locks, len(on)+1, "each is made once")
		require.NoError(t, s.Deny(t.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server}))
		require.Empty(t, f.rules)
		f.locks = slices.DeleteFunc(f.locks, func(l map[string]any) bool { return l["resource_action"] == "show" }) // Manila removes it with the rule
		require.Len(t, f.locks, 1)
		require.Equal(t, "of a user", f.locks[0]["id"])
		if !locked {
			require.Empty(t, on)
			require.NotContains(t, f.version, "2.82")
			continue
		}
		require.ElementsMatch(t, []any{
			"share delete " + in.Share.String(), "access_rule delete " + rule.ID.String(), "access_rule show " + rule.ID.String(),
		}, on)
		require.NotContains(t, f.version, "2.45")
	}
}

// SH-08: no server has a share before it is locked: where Manila refuses a lock, the error says what strongroom's own user needs, and
// once it has that, the rule that was made is locked, and no other one made.
func TestSH08NoServerIsLetInWithoutALock(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"share", "access_rule"} {
		f := &fake{refuses: on}
		s, in := open(t, f)
		_, err := s.Allow(t.Context(), in)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", on, err)
		require.ErrorContains(t, err, "strongroom's own user needs the role service")
		f.mu.Lock()
		f.refuses = ""
		f.mu.Unlock()
		rule, err := s.Allow(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, f.rules, 1)
		require.Equal(t, f.rules[0]["id"], rule.ID.String())
		require.Equal(t, "rw", f.rules[0]["access_level"])
		require.Len(t, f.locks, 3)
	}
}

// SH-08: a lock that a user made, and says that it is strongroom's, stands in for none, nor is it removed.
func TestSH08ALockThatAUserForged(t *testing.T) {
	t.Parallel()
	f := &fake{newest: "2.73"}
	s, in := open(t, f)
	rule, err := s.Allow(t.Context(), in)
	require.NoError(t, err)
	for _, on := range []string{in.Share.String(), rule.ID.String()} {
		f.locks = append(f.locks, map[string]any{"id": "of a user", "resource_id": on, "resource_action": "delete", "lock_reason": "strongroom: servers use access rule " + rule.ID.String()})
	}
	f.newest = "2.89"
	_, err = s.Allow(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, f.locks, 5, "two of the user's, and strongroom's own")
	require.NoError(t, s.Deny(t.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server}))
	f.locks = slices.DeleteFunc(f.locks, func(l map[string]any) bool { return l["resource_action"] == "show" })
	require.Len(t, f.locks, 2)
	require.Equal(t, "of a user", f.locks[0]["id"])
}

// SH-09: a rule that another host gets while the last one of this goes keeps the share locked.
func TestSH09ARuleThatComesKeepsItsLock(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s, in := open(t, f)
	_, err := s.Allow(t.Context(), in)
	require.NoError(t, err)
	id := uuid.NewString()
	f.listed = func() { // the rules were listed, and now another one is made
		if len(f.rules) > 0 {
			return
		}
		f.rules = append(f.rules, map[string]any{
			"id": id, "access_type": "ip", "access_to": "192.0.2.8", "access_level": "rw", "state": "active",
			"metadata": map[string]any{"strongroom": "x", "strongroom-server-" + uuid.NewString(): "x"},
		})
		f.locks = append(f.locks, map[string]any{
			"id": uuid.NewString(), "project": "strongroom's", "resource_type": "share", "resource_id": in.Share.String(), "resource_action": "delete",
			"lock_reason": "strongroom: servers use access rule " + id,
		})
	}
	require.NoError(t, s.Deny(t.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server, To: &in.To}))
	require.Len(t, f.rules, 1)
	require.True(t, slices.ContainsFunc(f.locks, func(l map[string]any) bool {
		return l["resource_type"] == "share" && l["lock_reason"] == "strongroom: servers use access rule "+id
	}))
}

// Where Manila's policy hides a locked rule from strongroom, too, it is not hidden at all: strongroom
// could not mount the share again. It is locked otherwise as ever.
func TestLocksThatHideTheRuleFromStrongroom(t *testing.T) {
	t.Parallel()
	f := &fake{hides: true}
	s, in := open(t, f)
	_, err := s.Allow(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, f.locks, 2)
	for _, l := range f.locks {
		require.Equal(t, "delete", l["resource_action"])
	}
}

// SH-08: a worker that dies once it has hidden a rule, and before it saw that it is hidden from strongroom, too,
// leaves one that the next attempt shows again. The lock of a user who hid it stays.
func TestSH08AWorkerThatDiesWhenItHasHiddenARule(t *testing.T) {
	t.Parallel()
	for _, project := range []any{"strongroom's", nil} {
		f := &fake{newest: "2.73"}
		s, in := open(t, f)
		rule, err := s.Allow(t.Context(), in)
		require.NoError(t, err)
		f.newest, f.hides = "2.89", true
		f.locks = append(f.locks, map[string]any{
			"id": uuid.NewString(), "project": project, "resource_id": rule.ID.String(), "resource_action": "show",
			"lock_reason": "strongroom: servers use access rule " + rule.ID.String(),
		})
		if project == nil {
			_, _ = s.Allow(t.Context(), in)
			require.Equal(t, rule.ID.String(), f.locks[0]["resource_id"])
			require.Equal(t, "show", f.locks[0]["resource_action"])
			continue
		}
		again, err := s.Allow(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, rule.ID, again.ID)
		require.Len(t, f.rules, 1)
		require.False(t, slices.ContainsFunc(f.locks, func(l map[string]any) bool { return l["resource_action"] == "show" }))
	}
}

func TestTooOld(t *testing.T) {
	t.Parallel()
	for _, newest := range []string{"2.44", "1.99", "", "soon"} {
		f := &fake{}
		s, in := open(t, f)
		f.newest = newest
		_, err := s.Allow(t.Context(), in)
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%q: %v", newest, err)
	}
}

// A lock hides the grantee from whoever did not make it: the names show it.
func TestAHiddenGrantee(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s, in := open(t, f)
	_, err := s.Allow(t.Context(), in)
	require.NoError(t, err)
	f.rules[0]["access_to"] = "******"
	require.NoError(t, s.Deny(t.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server, To: &in.To}))
	require.Empty(t, f.rules)
}

// Rules made at one moment for one grantee are all removed, and one is made.
func TestTwoRulesForOneGrantee(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s, in := open(t, f)
	_, err := s.Allow(t.Context(), in)
	require.NoError(t, err)
	twin := map[string]any{}
	for k, v := range f.rules[0] {
		twin[k] = v
	}
	twin["id"] = uuid.NewString()
	f.rules = append(f.rules, twin)
	s.Patience = 10 * time.Second
	rule, err := s.Allow(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, f.rules, 1)
	require.Equal(t, f.rules[0]["id"], rule.ID.String())
	require.NotEqual(t, twin["id"], rule.ID.String())
}

// A storage that does not get to it is waited for, and not for ever.
func TestPatience(t *testing.T) {
	t.Parallel()
	f := &fake{state: "queued_to_apply"}
	s, in := open(t, f)
	_, err := s.Allow(t.Context(), in)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "queued_to_apply")
	f.rules[0]["state"] = "denying"
	err = s.Deny(t.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server})
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.Len(t, f.asked, 1, "what is being removed is not removed again")
}

// A rule that the storage cannot forget is somebody's to look at.
func TestARuleThatStays(t *testing.T) {
	t.Parallel()
	f := &stubborn{fake{state: share.StateError}}
	s, in := open(t, &f.fake)
	_, err := s.Allow(t.Context(), in)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	s.Clients = opened{&gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/v2/", Type: "shared-file-system"}}
	err = s.Deny(t.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server})
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "could not forget")
}

// stubborn accepts a removal and keeps the rule in error.
type stubborn struct{ fake }

func (s *stubborn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.fake.ServeHTTP(w, r)
}

// A busy service says when to come again; one that is away is unavailable too. No
// error repeats what was sent or answered.
func TestAServiceThatIsAway(t *testing.T) {
	t.Parallel()
	s, in := open(t, &fake{answer: http.StatusServiceUnavailable})
	deny := share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server}
	calls := func() []error {
		_, get := s.Get(t.Context(), in.Credential, in.Share)
		_, locations := s.Locations(t.Context(), in.Credential, in.Share)
		_, allow := s.Allow(t.Context(), in)
		_, key := s.AccessKey(t.Context(), in.Credential, in.Share, in.To)
		_, list := s.List(t.Context(), in.Credential)
		return []error{get, locations, allow, key, list, s.Deny(t.Context(), deny)}
	}
	for _, err := range calls() {
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		require.NotContains(t, err.Error(), "canary")
		var busy interface{ RetryAfter() time.Duration }
		require.ErrorAs(t, err, &busy)
		require.Equal(t, 7*time.Second, busy.RetryAfter())
	}
	s.Clients = opened{&gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "canary-token"}, Endpoint: "http://127.0.0.1:1/v2/"}}
	for _, err := range calls() {
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		require.NotContains(t, err.Error(), "canary")
	}
}
