package volume_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestChanges follows a type from its making to its end: each change is on record
// with who made it, what was and what is.
func TestChanges(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	b.create("other", "")
	id, elsewhere := b.createPrivate("one"), b.cloud.project(t, stranger)
	path := "/types/" + id
	b.do(admin, "POST", path+"/extra_specs", `{"extra_specs":{"a":"1","b":null}}`).ok(200)
	b.do(admin, "POST", path+"/extra_specs", `{"extra_specs":{"a":"1"}}`).ok(200) // changes nothing
	b.do(admin, "PUT", path+"/extra_specs/a", `{"a":"2"}`).ok(200)
	b.do(admin, "DELETE", path+"/extra_specs/b", "").ok(202)
	b.do(admin, "POST", path+"/action", `{"addProjectAccess":{"project":"`+elsewhere+`"}}`).ok(202)
	b.do(admin, "POST", path+"/encryption", `{"encryption":{"provider":"luks","control_location":"front-end"}}`).ok(200)
	b.do(admin, "PUT", path+"/encryption/x", `{"encryption":{"cipher":"aes"}}`).ok(200)
	updated := b.do(admin, "PUT", path, `{"volume_type":{"name":"uno"}}`).ok(200)
	b.do(admin, "PUT", path, `{"volume_type":{"name":"other"}}`).ok(409) // refused: no change
	b.do(member, "PUT", path, `{"volume_type":{"name":"x"}}`).ok(403)
	b.do(admin, "DELETE", path, "").ok(202)

	var body struct {
		Changes []struct {
			Action, Name  string
			Before, After map[string]any
			RequestID     string `json:"request_id"`
			UserID        string `json:"user_id"`
			ProjectID     string `json:"project_id"`
		}
	}
	a := b.do(admin, "GET", path+"/changes", "", "OpenStack-API-Version", extended).ok(200)
	require.Equal(t, extended, a.header.Get("OpenStack-API-Version"))
	require.NoError(t, json.Unmarshal([]byte(a.body), &body))
	type line struct {
		action, name  string
		before, after map[string]any
	}
	none := map[string]any{}
	crypt := body.Changes[5].After["encryption_id"]
	plain := map[string]any{"volume_type_id": id, "encryption_id": crypt, "provider": "luks", "control_location": "front-end", "cipher": nil, "key_size": nil}
	ciphered := map[string]any{"volume_type_id": id, "encryption_id": crypt, "provider": "luks", "control_location": "front-end", "cipher": "aes", "key_size": nil}
	described := func(name string) map[string]any {
		return map[string]any{"name": name, "description": nil, "is_public": false}
	}
	want := []line{
		{"volume_type.create", "one", none, map[string]any{"name": "one", "description": nil, "is_public": false, "extra_specs": nil}},
		{"volume_type_extra_specs.create", "one", none, map[string]any{"a": "1", "b": nil}},
		{"volume_type_extra_specs.update", "one", map[string]any{"a": "1"}, map[string]any{"a": "2"}},
		{"volume_type_extra_specs.delete", "one", map[string]any{"b": nil}, none},
		{"volume_type_project.access.add", "one", none, map[string]any{"project": elsewhere}},
		{"volume_type_encryption.create", "one", none, plain},
		{"volume_type_encryption.update", "one", plain, ciphered},
		{"volume_type.update", "uno", described("one"), described("uno")},
		{"volume_type.delete", "uno", map[string]any{
			"name": "uno", "description": nil, "is_public": false, "extra_specs": map[string]any{"a": "2"}, "projects": []any{elsewhere}, "encryption": ciphered,
		}, none},
	}
	var recorded []line
	for _, got := range body.Changes {
		recorded = append(recorded, line{got.Action, got.Name, got.Before, got.After})
		require.Equal(t, b.cloud.project(t, admin), got.ProjectID)
		require.Len(t, got.UserID, 32)
	}
	require.Equal(t, want, recorded)
	require.Equal(t, updated.header.Get("X-Openstack-Request-Id"), body.Changes[7].RequestID)

	// It is strongroom's own, and for those who may read everything.
	b.do(admin, "GET", path+"/changes", "").fails(404, "itemNotFound", "The resource could not be found.")
	for _, caller := range users {
		b.do(caller, "GET", path+"/changes", "", "OpenStack-API-Version", extended).
			fails(403, "forbidden", "Policy doesn't allow strongroom:volume_types:changes to be performed.")
	}
	unknown := uuid.NewString()
	b.do(admin, "GET", "/types/"+unknown+"/changes", "", "OpenStack-API-Version", extended).
		fails(404, "itemNotFound", "Volume type "+unknown+" could not be found.")
}
