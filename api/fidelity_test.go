package api_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api/microversion"
)

// P26: from 2.23 on a list of all migrations links a live one that is under way with what can be
// done to it, and no other.
func TestP26LiveMigrationsUnderWayHaveLinks(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	for i, m := range []struct{ kind, status string }{
		{"live-migration", "queued"}, {"live-migration", "preparing"}, {"live-migration", "running"}, {"live-migration", "post-migrating"},
		{"live-migration", "completed"}, {"live-migration", "error"}, {"migration", "running"}, {"resize", "finished"}, {"evacuation", "done"},
	} {
		c.exec(`INSERT INTO migrations (uuid, operation_id, server_id, type, status, source, destination, old_flavor, new_flavor, project_id, user_id)
			VALUES (gen_random_uuid(), $2, $1, $3, $4, 'a', 'b', '1', '1', 'p', 'u')`, id, fmt.Sprintf("req-%d", i), m.kind, m.status)
	}
	for v := microversion.Min; v <= microversion.Max; v++ {
		linked := 0
		for _, item := range c.do(t, admin, "GET", "/os-migrations", "", at(v.String())).ok(200).get("migrations").([]any) {
			m := item.(map[string]any)
			links, ok := m["links"].([]any)
			if !ok {
				continue
			}
			linked++
			require.Equal(t, "live-migration", m["migration_type"])
			path := fmt.Sprintf("/servers/%s/migrations/%v", id, m["id"])
			require.Equal(t, []any{
				map[string]any{"rel": "self", "href": "http://cloud.example:8774/v2.1" + path},
				map[string]any{"rel": "bookmark", "href": "http://cloud.example:8774" + path},
			}, links)
			c.do(t, admin, "GET", path, "", at(v.String())).ok(200)
		}
		if want := 4; v >= 23 {
			require.Equal(t, want, linked, v)
		} else {
			require.Zero(t, linked, v)
		}
	}
}

// P27: a project that Keystone does not know gets no access to a flavor; one that was deleted
// can be taken off it.
func TestP27NoFlavorAccessForAnUnknownProject(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	newFlavor(t, c.bundle, "private", `,"os-flavor-access:is_public":false`)
	unknown := func(action string) answer {
		return c.do(t, admin, "POST", "/flavors/private/action", `{"`+action+`":{"tenant":"deleted"}}`)
	}
	unknown("addTenantAccess").fails(400, "badRequest", "Project ID deleted is not a valid project.")
	require.Zero(t, c.count(`SELECT count(*) FROM flavor_access`))
	c.exec(`INSERT INTO flavor_access (flavor_id, project_id) VALUES ('private', 'deleted')`)
	unknown("removeTenantAccess").is(200, `{"flavor_access":[]}`)
	c.do(t, admin, "POST", "/flavors/private/action", `{"addTenantAccess":{"tenant":"`+elsewhere+`"}}`).ok(200)
	c.identity.set(true) // who cannot be asked knows every project, as in Nova
	unknown("addTenantAccess").ok(200)
}
