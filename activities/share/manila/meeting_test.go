package manila_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/activities/share"
	"strongroom/activities/share/manila"
	"strongroom/compute"
)

// meeting is a fake that keeps what is written into its rule's metadata, and in which others act
// right after a list of the rules: what the real one shows too seldom.
type meeting struct {
	fake
	lists int
	then  func(lists int, metadata map[string]any)
}

func (m *meeting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.Contains(r.URL.Path, "/resource-locks"):
		m.fake.ServeHTTP(w, r)
	case r.Method == http.MethodPut:
		var body struct {
			Metadata map[string]any `json:"metadata"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		for key, text := range body.Metadata {
			m.metadata()[key] = text
		}
		_, _ = w.Write([]byte("{}"))
	case r.Method == http.MethodDelete:
		delete(m.metadata(), path.Base(r.URL.Path))
	default:
		m.fake.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/share-access-rules") && m.then != nil && len(m.rules) > 0 {
			m.lists++
			m.then(m.lists, m.metadata())
		}
	}
}

func (m *meeting) metadata() map[string]any { return m.rules[0]["metadata"].(map[string]any) }

func (m *meeting) isClosing() bool {
	for key := range m.metadata() {
		if strings.HasPrefix(key, closingKey) {
			return true
		}
	}
	return false
}

// meet gives a rule that names one server, and the name of another one there.
func meet(t *testing.T) (m *meeting, s *manila.Service, in share.AllowInput, other compute.ServerID) {
	t.Helper()
	m = &meeting{}
	s, in = open(t, &m.fake)
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	s.Clients = opened{&gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/v2/", Type: "shared-file-system"}}
	s.Patience = 10 * time.Second
	_, err := s.Allow(t.Context(), in)
	require.NoError(t, err)
	return m, s, in, compute.ServerID{UUID: uuid.New()}
}

const (
	closingKey = "strongroom-closing-"
	serverKey  = "strongroom-server-"
)

// Decision 18: a rule stays for a server that is let in while the last other one is taken out.
func TestARuleStaysForAServerThatComesMeanwhile(t *testing.T) {
	t.Parallel()
	m, s, in, other := meet(t)
	m.then = func(lists int, metadata map[string]any) {
		if lists == 1 {
			metadata[serverKey+other.String()] = "uses this share"
		}
	}
	require.NoError(t, s.Deny(t.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server}))
	require.Len(t, m.rules, 1)
	require.Contains(t, m.metadata(), serverKey+other.String())
	require.NotContains(t, m.metadata(), serverKey+in.Server.String())
	require.False(t, m.isClosing())
}

// Whoever lets a server in waits for the one who is about to remove the rule.
func TestARuleThatIsAboutToGoIsNotEnough(t *testing.T) {
	t.Parallel()
	m, s, in, other := meet(t)
	in.Server = other
	leaving := closingKey + uuid.NewString()
	m.metadata()[leaving] = "is being removed"
	s.Patience = 300 * time.Millisecond
	_, err := s.Allow(t.Context(), in)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	s.Patience = 10 * time.Second
	m.then = func(lists int, metadata map[string]any) {
		if lists == 2 {
			delete(metadata, leaving) // he saw it
		}
	}
	_, err = s.Allow(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, m.metadata(), serverKey+other.String())
}

// Two servers that leave at once leave no rule that names nobody.
func TestNoRuleStaysForNobody(t *testing.T) {
	t.Parallel()
	m, s, in, other := meet(t)
	m.metadata()[serverKey+other.String()] = "uses this share"
	m.then = func(lists int, metadata map[string]any) {
		if lists == 1 {
			delete(metadata, serverKey+other.String())
		}
	}
	require.NoError(t, s.Deny(t.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server}))
	require.Empty(t, m.rules)
}

// A removal that was cut off leaves a mark, which its next attempt erases where a server that came
// meanwhile needs the rule: that one's Allow waits for it.
func TestTheMarkOfARemovalThatWasCutOffGoes(t *testing.T) {
	t.Parallel()
	m, s, in, other := meet(t)
	m.metadata()[serverKey+other.String()] = "uses this share"
	third := in
	third.Server = compute.ServerID{UUID: uuid.New()}
	ctx, cut := context.WithCancel(t.Context())
	m.then = func(lists int, metadata map[string]any) {
		switch lists {
		case 1: // the other one leaves at the same moment
			delete(metadata, serverKey+other.String())
		case 3: // the mark is written
			metadata[serverKey+third.Server.String()] = "uses this share"
			cut()
		}
	}
	deny := share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server, To: &in.To}
	require.Error(t, s.Deny(ctx, deny))
	require.Len(t, m.rules, 1)
	require.True(t, m.isClosing())
	m.then = nil
	require.NoError(t, s.Deny(t.Context(), deny))
	require.Len(t, m.rules, 1)
	require.False(t, m.isClosing())
	_, err := s.Allow(t.Context(), third)
	require.NoError(t, err)
}

// Another removal's mark stays: that may be about to remove the rule, and a server that comes must see it.
func TestTheMarkOfAnotherRemovalStays(t *testing.T) {
	t.Parallel()
	m, s, in, other := meet(t)
	m.metadata()[serverKey+other.String()] = "uses this share"
	m.metadata()[closingKey+other.String()] = "is being removed"
	require.NoError(t, s.Deny(t.Context(), share.DenyInput{Credential: in.Credential, Share: in.Share, Server: in.Server, To: &in.To}))
	require.Contains(t, m.metadata(), closingKey+other.String())
	require.NotContains(t, m.metadata(), serverKey+in.Server.String())
}
