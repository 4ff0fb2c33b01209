package integration_test

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
)

// auditResult is what `strongroom audit -o json` prints.
type auditResult struct {
	Findings []compute.Finding `json:"findings"`
	Things   int               `json:"things"`
	Silent   []string          `json:"silent"`
}

// audit runs the audit until every host answers; a host worker may have been
// killed a moment ago.
func (c *testCloud) audit(t *testing.T) auditResult {
	t.Helper()
	var result auditResult
	var out []byte
	witnesses := []await.Witness{{Name: "silent hosts", Look: func() string { return strings.Join(result.Silent, " ") }}}
	for n := range c.hosts {
		witnesses = append(witnesses, c.hostProgress(c.Host(n+1)))
	}
	err := await.Until("every host answers the audit", func() bool {
		out, _ = exec.Command(c.binary, "--config", c.ConfigFile(), "audit", "-o", "json").Output() // findings are exit code 1
		result = auditResult{}
		return json.Unmarshal(out, &result) == nil && len(result.Silent) == 0
	}, witnesses...)
	require.NoError(t, err, "it said %s", out)
	for _, f := range result.Findings {
		if f.What == compute.Unowned {
			t.Logf(invariant+"the ledger does not know %v", f) // said only if the test fails
		}
	}
	return result
}

// nothingIsLeft requires that the ledger and the world agree, and looks into the
// real services with eyes of its own: what is there is a living server's.
func (c *testCloud) nothingIsLeft(t *testing.T) {
	t.Helper()
	require.Empty(t, c.audit(t).Findings)
	if c.real == nil {
		return
	}
	for _, user := range []string{"-demo", "-alt", "-strongroom"} {
		left := c.ownerless(t, user)
		_ = await.Until("it goes", func() bool {
			if len(left) == 0 {
				return true
			}
			// One that is gone now was its server's when it was seen, or, on the shared cloud, another test's image or its key.
			still := c.ownerless(t, user)
			left = slices.DeleteFunc(left, func(name string) bool { return !slices.Contains(still, name) })
			return len(left) == 0 || !c.shared
		}, await.Witness{Name: "left", Look: func() string { return strings.Join(left, ", ") }})
		require.Empty(t, left, invariant+"something is left that %s sees", user)
	}
}

// ownerless gives what a user sees in the cloud's services that is no living
// server's.
func (c *testCloud) ownerless(t *testing.T, user string) []string {
	t.Helper()
	var names []string
	copies := slices.DeleteFunc(c.allImages(t, user), func(i images.Image) bool { return i.Name != copiedImage })
	for _, s := range c.secrets(t, user) {
		if s.Name != novaSecret && !slices.ContainsFunc(copies, func(i images.Image) bool { return strings.HasPrefix(s.Name, "strongroom image "+i.ID+" ") }) {
			names = append(names, "secret "+s.Name)
		}
	}
	for _, name := range c.trusts(t, user) {
		names = append(names, "trust "+name)
	}
	for _, container := range c.containers(t, user) {
		names = append(names, "container "+container)
	}
	for _, image := range c.images(t, user) {
		names = append(names, "image "+image)
	}
	var out []string
	for _, name := range names {
		_, rest, _ := strings.Cut(name, " ")
		server, _, ok := compute.SecretOwner(rest)
		if (!ok || !c.lives(t, server.String())) && !c.isShelved(t, rest) {
			out = append(out, name)
		}
	}
	return out
}

// isShelved reports whether a container or an image keeps what a server has while it is shelved.
func (c *testCloud) isShelved(t *testing.T, name string) bool {
	t.Helper()
	for _, prefix := range []string{"strongroom/tpm/", "strongroom/nvram/"} {
		if of, ok := strings.CutPrefix(name, prefix); ok {
			server, _, _ := strings.Cut(of, "/")
			return c.lives(t, server)
		}
	}
	server, _, ok := strings.Cut(name, "-shelved")
	return ok && len(listed(t, c.compute(t, ""), servers.ListOpts{Name: "^" + server + "$", AllTenants: true})) > 0
}

// lives reports whether there is a server of the id.
func (c *testCloud) lives(t *testing.T, id string) bool {
	t.Helper()
	_, err := servers.Get(t.Context(), c.compute(t, ""), id).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return false
	}
	require.NoError(t, err)
	return true
}
