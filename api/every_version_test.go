package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api/microversion"
	"strongroom/compute"
)

// neverFound are the GET routes that answer nobody, one that is asked elsewhere, and those of a network service, which there is none of here.
var neverFound = map[string]int{
	"GET /os-hosts/:name/startup":                    501,
	"GET /os-hosts/:name/shutdown":                   501,
	"GET /os-hosts/:name/reboot":                     501,
	"GET /servers/:id/os-volume_attachments/:volume": 404,

	"GET /os-networks": 404, "GET /os-networks/:id": 404, "GET /os-tenant-networks": 404, "GET /os-tenant-networks/:id": 404,
	"GET /os-security-groups": 404, "GET /os-security-groups/:id": 404,
}

// P25: each GET route answers at every version that it has, and each answer, which all tests compare with its schema (check),
// has the keys of that version. The owner, whose keys are fewer, asks where they change, and just before.
func TestP25EveryRouteAtEveryVersion(t *testing.T) {
	t.Parallel()
	c := setupTenants(t)
	port := compute.PortID{UUID: uuid.MustParse(goodShare)} // in paths both have the same id
	c.exec(`UPDATE servers SET networks = $2 WHERE id = $1`, c.home.server, []compute.Network{{UUID: networkID, MAC: "fa:16:3e:00:00:01", Tag: "front",
		Port: &compute.Port{ID: &port, Label: "lan", Status: "ACTIVE", Addresses: []compute.PortAddress{{Subnet: compute.SubnetID{UUID: uuid.UUID{1}}, IP: "10.1.0.7"}}}}})
	c.hasShare(c.home.server, goodShare, compute.ShareActive)
	c.hasTPMCertificates(t, c.home.server, c.home.action)
	c.exec(`INSERT INTO migrations (uuid, operation_id, server_id, type, status, source, destination, old_flavor, new_flavor, project_id, user_id, memory_total, disk_remaining)
		VALUES (gen_random_uuid(), $2, $1, 'live-migration', 'running', 'node-1', 'node-2', $3, $3, 'p', 'u', 1000, 7)`, c.home.server, c.home.action, c.home.flavor)
	migration := c.text(`SELECT number::text FROM migrations WHERE server_id = $1`, c.home.server)
	spare := c.text(`SELECT number::text FROM hosts WHERE id = $1`, c.spare)
	for _, r := range c.api.Routes() {
		name := routeName(r)
		if r.Method != http.MethodGet || isElsewhere(r) || name == "GET /os-console-auth-tokens/:token" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := demandsOf(r)[0]
			path := c.home.path(c, strings.NewReplacer(":network", "lan", ":migration", migration).Replace(r.Path))
			if d.to != "" {
				path = c.home.words(c).Replace(d.to)
			}
			if d.query != "" {
				path += "?" + c.home.words(c).Replace(d.query)
			}
			for v := max(r.Min, microversion.Min); v <= microversion.Max && (r.Max == 0 || v <= r.Max); v++ {
				path := path
				if strings.HasPrefix(path, "/os-hypervisors/") && v < 53 { // it has a number
					path = strings.Replace(path, c.spare.String(), spare, 1)
				}
				for by, as := range map[string]who{"admin": admin, "owner": creator} {
					if by == "owner" && !changesAround(t, name, v) && v != r.Max && v != microversion.Max {
						continue
					}
					speaks := "compute " + v.String()
					if r.Own {
						speaks += ", strongroom 1.0"
					}
					got := c.do(t, as, r.Method, path, "", header(microversion.Header, speaks))
					want := d.right(callers[by], http.StatusOK)
					if want == http.StatusOK {
						want = max(neverFound[name], r.Status, want)
					}
					require.Equal(t, want, got.code, "%s as %s at %s: %s", path, by, v, got.body)
				}
			}
		})
	}
}

// changesAround reports whether the owner's answer has other keys at a version than at the one before it, or at the one after it.
func changesAround(t *testing.T, name string, v microversion.Version) bool {
	t.Helper()
	schema, found := answers(name)
	require.True(t, found)
	of := func(v microversion.Version) string {
		return string(marshal(t, schema(question{Negotiated: microversion.Negotiated{Compute: v}, as: creator})))
	}
	return of(v) != of(v-1) || of(v) != of(v+1)
}
