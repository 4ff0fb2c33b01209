package devcloud_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Terraform, Ansible and the standard client ask of the real services and these do not have is told as 501, with what to do.
// Resources that no service has are not found.
func TestWhatTheServicesDoNotHave(t *testing.T) {
	t.Parallel()
	b, _, _, _ := setupNetworks(t)
	admin, reader := b.login(t, "admin", "admin").TokenID, b.login(t, "reader", "demo").TokenID
	for request, words := range map[string]string{
		"POST /identity/v3/domains":                        "one domain",
		"POST /identity/v3/roles":                          "roles, application credentials",
		"PUT /identity/v3/groups/x/users/y":                "no groups",
		"GET /identity/v3/OS-TRUST/trusts":                 "trusts",
		"GET /identity/v3/users/x/application_credentials": "application credentials",
		"POST /network/v2.0/networks":                      "Neutron",
		"POST /network/v2.0/security-groups.json":          "Neutron",
		"POST /network/v2.0/security-group-rules":          "Neutron",
		"DELETE /network/v2.0/ports/x":                     "Neutron",
		"GET /network/v2.0/routers":                        "Neutron",
		"PUT /network/v2.0/quotas/x":                       "Neutron",
		"POST /image/v2/images/x/members":                  "Glance",
		"POST /image/v2/images/x/import":                   "Glance",
		"GET /image/v2/metadefs/namespaces":                "Glance",
		"GET /image/v2/tasks":                              "Glance",
		"GET /identity/v3/nothing":                         "",
		"GET /network/v2.0/nothing":                        "",
		"GET /image/v2/nothing":                            "",
		"GET /image/v3/images":                             "",
		"GET /nothing/v3/users":                            "",
	} {
		method, path, _ := strings.Cut(request, " ")
		url := strings.TrimSuffix(b.AuthURL(), "/identity/v3") + path
		require.Equal(t, b.send(t, method, url, `{}`, "X-Auth-Token", admin).status, b.send(t, method, url, `{}`, "X-Auth-Token", reader).status, request)
		got := b.send(t, method, url, `{}`, "X-Auth-Token", admin)
		if words == "" {
			require.Equal(t, 404, got.status, request)
			continue
		}
		require.Equal(t, 501, got.status, "%s: %s", request, got.body)
		message := fmt.Sprint(got.json(t))
		require.Contains(t, message, words, request)
		require.Contains(t, message, "strongroom dev --cloud FILE", request)
	}
	require.Contains(t, b.log.String(), "501")
	require.NotContains(t, b.log.String(), "request failed", "nothing of it is a fault of the service")
}

// The standard client shows what to do.
func TestTheStandardClientIsToldWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, said, err := b.python(t, "admin").Run(t, "domain", "create", "another")
	require.Error(t, err)
	require.Contains(t, said, "strongroom dev --cloud FILE")
}
