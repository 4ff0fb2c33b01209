package auth_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/api/auth"
)

// K5: a rule of Nova's that asks for is_admin_project:True holds in a cloud that has no project for administrators, also by what is remembered of a token.
func TestK5EachProjectIsTheAdminsWhereNoneIs(t *testing.T) {
	t.Parallel()
	said := map[string]any{"silent": nil, "yes": true, "no": false}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := map[string]any{
			"user":       map[string]any{"id": "u", "name": "u", "domain": map[string]any{"id": "d", "name": "d"}},
			"project":    map[string]any{"id": "p", "name": "p", "domain": map[string]any{"id": "d", "name": "d"}},
			"roles":      []any{map[string]any{"id": "r", "name": "admin"}},
			"expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		}
		if is := said[r.Header.Get("X-Subject-Token")]; is != nil {
			token["is_admin_project"] = is
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"token": token})
	}))
	t.Cleanup(server.Close)
	v := auth.New(auth.Config{
		Identity: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "own"}, Endpoint: server.URL + "/v3/"},
		Client:   func(r *http.Request) string { return r.RemoteAddr }, Now: time.Now,
	})
	for name, want := range map[string]bool{"silent": true, "yes": true, "no": false} {
		for range 2 { // asked, and remembered
			token, err := v.Token(with(name, "192.0.2.1:1"))
			require.NoError(t, err, name)
			require.Equal(t, want, token.IsAdminProject(), name)
		}
	}
}
