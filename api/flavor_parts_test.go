package api_test

import (
	"strings"
	"testing"
)

func TestFlavorAccess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newFlavor(t, b, "public", "")
	newFlavor(t, b, "private", `,"os-flavor-access:is_public":false`)
	b.do(t, admin, "GET", "/flavors/private/os-flavor-access", "").is(200, `{"flavor_access":[]}`)
	b.do(t, admin, "GET", "/flavors/public/os-flavor-access", "").fails(404, "itemNotFound", "Access list not available for public flavors.")
	b.do(t, admin, "GET", "/flavors/none/os-flavor-access", "").fails(404, "itemNotFound", "Flavor none could not be found.")
	b.do(t, member, "GET", "/flavors/private/os-flavor-access", "").
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-flavor-access to be performed.")

	add, remove := `{"addTenantAccess":{"tenant":"`+elsewhere+`"}}`, `{"removeTenantAccess":{"tenant":"`+elsewhere+`"}}`
	list := `{"flavor_access":[{"flavor_id":"private","tenant_id":"` + elsewhere + `"}]}`
	b.do(t, admin, "POST", "/flavors/private/action", add).is(200, list)
	b.do(t, admin, "GET", "/flavors/private/os-flavor-access", "").is(200, list)
	for _, c := range []struct {
		name    string
		as      who
		flavor  string
		version string
		body    string
		code    int
		key     string
		want    string
	}{
		{"again", admin, "private", "2.1", add, 409, "conflictingRequest", "Flavor access already exists for flavor private and project " + elsewhere + " combination."},
		{"public", admin, "public", "2.7", add, 409, "conflictingRequest", "Can not add access to a public flavor."},
		{"no flavor", admin, "none", "2.1", add, 404, "itemNotFound", "Flavor none could not be found."},
		{"not there", admin, "public", "2.1", remove, 404, "itemNotFound", "Flavor access not found for public / " + elsewhere + " combination."},
		{"member adds", member, "private", "2.1", add, 403, "forbidden", "Policy doesn't allow os_compute_api:os-flavor-access:add_tenant_access to be performed."},
		{"member removes", member, "private", "2.1", remove, 403, "forbidden", "Policy doesn't allow os_compute_api:os-flavor-access:remove_tenant_access to be performed."},
		{"unknown action", admin, "private", "2.1", `{"xyz":null}`, 400, "badRequest", "There is no such action: xyz"},
		{"unknown actions", admin, "private", "2.1", `{"xyz":null,"abc":null}`, 400, "badRequest", "There is no such action: abc"},
		{"two actions", admin, "private", "2.1", `{"addTenantAccess":{"tenant":"a"},"xyz":1}`, 400, "badRequest", "Additional properties are not allowed ('xyz' was unexpected)"},
		{"no action", admin, "private", "2.1", `{}`, 400, "badRequest", "Malformed request body"},
		{"no object", admin, "private", "2.1", `[]`, 400, "badRequest", "Malformed request body"},
		{"no body", admin, "private", "2.1", ``, 400, "badRequest", "Malformed request body"},
		{"no tenant", admin, "private", "2.1", `{"addTenantAccess":{}}`, 400, "badRequest", "Invalid input for field/attribute addTenantAccess. Value: {}. 'tenant' is a required property"},
		{"no project id", admin, "private", "2.1", `{"addTenantAccess":{"tenant":"a b"}}`, 400, "badRequest",
			"Invalid input for field/attribute tenant. Value: a b. 'a b' does not match '^[a-zA-Z0-9-]*$'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.do(t, c.as, "POST", "/flavors/"+c.flavor+"/action", c.body, at(c.version)).fails(c.code, c.key, c.want)
		})
	}
	b.do(t, admin, "POST", "/flavors/public/action", add, at("2.6")).ok(200)
	b.do(t, admin, "POST", "/flavors/private/action", remove).is(200, `{"flavor_access":[]}`)
}

func TestExtraSpecs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newFlavor(t, b, "1", "")
	path := "/flavors/1/os-extra_specs"
	b.do(t, reader, "GET", path, "").is(200, `{"extra_specs":{}}`)
	b.do(t, admin, "POST", path, `{"extra_specs":{"hw:tpm_version":"2.0","n":7,"a b.c-d_e":"x"}}`).
		is(200, `{"extra_specs":{"hw:tpm_version":"2.0","n":"7","a b.c-d_e":"x"}}`)
	b.do(t, admin, "PUT", path+"/n", `{"n":"8"}`).is(200, `{"n":"8"}`)
	b.do(t, reader, "GET", path, "").is(200, `{"extra_specs":{"hw:tpm_version":"2.0","n":"8","a b.c-d_e":"x"}}`)
	b.do(t, reader, "GET", path+"/hw:tpm_version", "").is(200, `{"hw:tpm_version":"2.0"}`)
	b.do(t, reader, "GET", path+"/hw%3Atpm_version", "").is(200, `{"hw:tpm_version":"2.0"}`)
	b.do(t, reader, "GET", path+"/a%20b.c-d_e", "").is(200, `{"a b.c-d_e":"x"}`)
	b.do(t, reader, "GET", "/flavors/1", "", at("2.61")).ok(200)
	b.do(t, admin, "DELETE", path+"/n", "").is(200, "")

	const missing = "Flavor 1 has no extra specs with key n."
	for _, c := range []struct {
		name    string
		as      who
		version string
		method  string
		path    string
		body    string
		code    int
		key     string
		want    string
	}{
		{"show one that is not there", reader, "2.1", "GET", path + "/n", "", 404, "itemNotFound", missing},
		{"delete one that is not there", admin, "2.1", "DELETE", path + "/n", "", 404, "itemNotFound", missing},
		{"no flavor", reader, "2.1", "GET", "/flavors/2/os-extra_specs", "", 404, "itemNotFound", "Flavor 2 could not be found."},
		{"set on no flavor", admin, "2.1", "POST", "/flavors/2/os-extra_specs", `{"extra_specs":{"a":"b"}}`, 404, "itemNotFound", "Flavor 2 could not be found."},
		{"mismatch", admin, "2.1", "PUT", path + "/n", `{"m":"1"}`, 400, "badRequest", "Request body and URI mismatch"},
		{"several", admin, "2.1", "PUT", path + "/n", `{"n":"1","m":"2"}`, 400, "badRequest", "{'m': '2', 'n': '1'} has too many properties"},
		{"none", admin, "2.1", "PUT", path + "/n", `{}`, 400, "badRequest", "{} does not have enough properties"},
		{"bad key", admin, "2.1", "POST", path, `{"extra_specs":{"a/b":"1"}}`, 400, "badRequest",
			"Invalid input for field/attribute extra_specs. Value: {'a/b': '1'}. 'a/b' does not match any of the regexes: '^[a-zA-Z0-9-_:. ]{1,255}$'"},
		{"bad type", admin, "2.1", "POST", path, `{"extra_specs":{"a":null}}`, 400, "badRequest",
			"Invalid input for field/attribute a. Value: None. None is not of type 'string', 'number'"},
		{"too long", admin, "2.1", "POST", path, `{"extra_specs":{"a":"` + strings.Repeat("x", 256) + `"}}`, 400, "badRequest",
			"Invalid input for field/attribute a. Value: " + strings.Repeat("x", 256) + ". '" + strings.Repeat("x", 256) + "' is too long"},
		{"bad value", admin, "2.86", "POST", path, `{"extra_specs":{"hw:tpm_version":"3.0"}}`, 400, "badRequest", "Validation failed; '3.0' is not one of: 1.2, 2.0."},
		{"bad boolean", admin, "2.86", "PUT", path + "/hw:ephemeral_encryption", `{"hw:ephemeral_encryption":"perhaps"}`, 400, "badRequest",
			"Validation failed; 'perhaps' is not a valid boolean-like value."},
		{"unknown", admin, "2.86", "POST", path, `{"extra_specs":{"hw:foo":"1"}}`, 400, "badRequest",
			"Validation failed; extra spec 'hw:foo' does not appear to be a valid extra spec."},
		{"member sets", member, "2.1", "POST", path, `{"extra_specs":{"a":"b"}}`, 403, "forbidden",
			"Policy doesn't allow os_compute_api:os-flavor-extra-specs:create to be performed."},
		{"member changes", member, "2.1", "PUT", path + "/a", `{"a":"b"}`, 403, "forbidden",
			"Policy doesn't allow os_compute_api:os-flavor-extra-specs:update to be performed."},
		{"member deletes", member, "2.1", "DELETE", path + "/a", "", 403, "forbidden",
			"Policy doesn't allow os_compute_api:os-flavor-extra-specs:delete to be performed."},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.do(t, c.as, c.method, c.path, c.body, at(c.version)).fails(c.code, c.key, c.want)
		})
	}
	b.do(t, admin, "POST", path, `{"extra_specs":{"hw:foo":"1"}}`, at("2.85")).ok(200)
	b.do(t, admin, "POST", path, `{"extra_specs":{"hw:tpm_model":"CRB","other":"free"}}`, at("2.86")).
		is(200, `{"extra_specs":{"hw:tpm_model":"tpm-crb","other":"free"}}`)
}
