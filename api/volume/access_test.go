package volume_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestAccess(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	id, elsewhere := b.createPrivate("private"), b.cloud.project(t, stranger)
	path := "/types/" + id
	add, remove := `{"addProjectAccess":{"project":"`+elsewhere+`"}}`, `{"removeProjectAccess":{"project":"`+elsewhere+`"}}`
	notFound := "Volume type " + id + " could not be found."
	for _, route := range []string{"", "/extra_specs", "/extra_specs/multiattach"} {
		b.do(stranger, "GET", path+route, "").fails(404, "itemNotFound", notFound)
	}
	b.do(admin, "GET", path+"/os-volume-type-access", "").is(200, `{"volume_type_access":[]}`)
	b.do(admin, "POST", path+"/action", add).is(202, "")
	b.do(admin, "POST", path+"/action", add).
		fails(409, "conflictingRequest", "Volume type access for "+id+" / "+elsewhere+" combination already exists.")
	b.do(admin, "GET", path+"/os-volume-type-access", "").
		is(200, `{"volume_type_access":[{"volume_type_id":"`+id+`","project_id":"`+elsewhere+`"}]}`)
	b.do(stranger, "GET", path, "").ok(200)
	b.do(stranger, "GET", path+"/extra_specs", "").ok(200)
	b.do(member, "GET", path, "").fails(404, "itemNotFound", notFound)
	b.do(admin, "POST", path+"/action", remove).is(202, "")
	b.do(admin, "POST", path+"/action", remove).
		fails(404, "itemNotFound", "Volume type access not found for "+id+" / "+elsewhere+" combination.")
	b.do(stranger, "GET", path, "").fails(404, "itemNotFound", notFound)

	for _, caller := range users {
		b.do(caller, "GET", path+"/os-volume-type-access", "").denied("volume_type_access:get_all_for_type")
		b.do(caller, "POST", path+"/action", add).denied("volume_type_access:addProjectAccess")
		b.do(caller, "POST", path+"/action", remove).denied("volume_type_access:removeProjectAccess")
	}
	public := "/types/" + b.create("public", "")
	b.do(admin, "GET", public+"/os-volume-type-access", "").fails(404, "itemNotFound", "Access list not available for public volume types.")
	for _, action := range []string{add, remove} {
		b.do(admin, "POST", public+"/action", action).
			fails(400, "badRequest", "Invalid volume type: Type access modification is not applicable to public volume type.")
		b.do(admin, "POST", "/types/none/action", action).fails(404, "itemNotFound", "Volume type none could not be found.")
	}
	for body, want := range map[string]string{
		``: "Malformed request body", `{}`: "Malformed request body", `[]`: "Malformed request body",
		`{"addProjectAccess":{},"removeProjectAccess":{}}`: "Malformed request body",
		`{"sing":{}}`:                              "There is no such action: sing. Verify the request body and Content-Type header and try again.",
		`{"addProjectAccess":null}`:                "Invalid input for field/attribute addProjectAccess. Value: None. None is not of type 'object'",
		`{"addProjectAccess":{}}`:                  "Invalid input for field/attribute addProjectAccess. Value: {}. 'project' is a required property",
		`{"removeProjectAccess":{"project":"me"}}`: "Invalid input for field/attribute project. Value: me. 'me' is not a 'uuid'",
	} {
		b.do(admin, "POST", path+"/action", body).fails(400, "badRequest", want)
	}
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	id := b.create("encrypted", "")
	path, none := "/types/"+id+"/encryption", "Volume type encryption for type "+id+" does not exist."
	const luks = `{"encryption":{"provider":"luks","control_location":"front-end","key_size":"256","cipher":"aes-xts-plain64"}}`
	b.do(admin, "GET", path, "").is(200, `{}`)
	b.do(admin, "GET", path+"/cipher", "").fails(404, "itemNotFound", none)
	b.do(admin, "PUT", path+"/x", `{"encryption":{}}`).fails(404, "itemNotFound", none)
	b.do(admin, "DELETE", path+"/x", "").fails(404, "itemNotFound", none)

	made := b.do(admin, "POST", path, luks).thing("encryption")
	crypt := made["encryption_id"].(string)
	require.NoError(t, uuid.Validate(crypt))
	require.Equal(t, map[string]any{
		"volume_type_id": id, "encryption_id": crypt, "provider": "luks", "control_location": "front-end", "key_size": 256.0, "cipher": "aes-xts-plain64",
	}, made)
	b.do(admin, "POST", path, luks).fails(400, "badRequest", "Volume type encryption for type "+id+" already exists.")
	require.Regexp(t, `"created_at":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}"`, b.do(admin, "GET", path, "").body)
	b.do(admin, "GET", path+"/cipher", "").is(200, `{"cipher":"aes-xts-plain64"}`)
	b.do(admin, "GET", path+"/deleted", "").is(200, `{"deleted":false}`)
	b.do(admin, "GET", path+"/updated_at", "").is(200, `{"updated_at":null}`)
	b.do(admin, "GET", path+"/nothing", "").fails(404, "itemNotFound", none)

	b.do(admin, "PUT", path+"/provider", `{"encryption":{"key_size":512,"cipher":null}}`).ok(200)
	b.do(admin, "PUT", path+"/"+crypt, `{"encryption":{"provider":"plain","control_location":"back-end"}}`).ok(200)
	require.Regexp(t, `"cipher":null,"control_location":"back-end",.*"key_size":512,"provider":"plain"`, b.do(admin, "GET", path, "").body)
	b.do(admin, "GET", path+"/key_size", "").is(200, `{"key_size":512}`)
	b.do(admin, "DELETE", path+"/"+crypt, "").is(202, "")
	b.do(admin, "GET", path, "").is(200, `{}`)

	for body, want := range map[string]string{
		`{}`:                                 "'encryption' is a required property",
		`{"encryption":{}}`:                  "Invalid input for field/attribute encryption. Value: {}. 'provider' is a required property",
		`{"encryption":{"provider":"luks"}}`: "Invalid input for field/attribute encryption. Value: {'provider': 'luks'}. 'control_location' is a required property",
		`{"encryption":{"provider":"luks","control_location":"x"}}`:                                  "Invalid input for field/attribute control_location. Value: x. 'x' is not one of ['front-end', 'back-end']",
		`{"encryption":{"provider":"luks","control_location":"front-end","key_size":-1}}`:            "Invalid input for field/attribute key_size. Value: -1. -1 is less than the minimum of 0",
		`{"encryption":{"provider":"luks","control_location":"front-end","key_size":"x"}}`:           "Invalid input for field/attribute key_size. Value: x. 'x' does not match '^[0-9]+$'",
		`{"encryption":{"provider":"luks","control_location":"front-end","key_size":2147483648}}`:    "Invalid input for field/attribute key_size. Value: 2147483648. 2147483648 is greater than the maximum of 2147483647",
		`{"encryption":{"provider":"luks","control_location":"front-end","key_size":"99999999999"}}`: "Invalid input for field/attribute key_size. Value: 99999999999. '99999999999' is greater than the maximum of 2147483647",
	} {
		a := b.do(admin, "POST", path, body)
		require.Equal(t, 400, a.code, body)
		if body != `{"encryption":{"provider":"luks","control_location":"front-end","key_size":"99999999999"}}` {
			a.fails(400, "badRequest", want)
		}
	}
	for _, caller := range users {
		b.do(caller, "GET", path, "").denied("volume_type_encryption:get")
		b.do(caller, "GET", path+"/cipher", "").denied("volume_type_encryption:get")
		b.do(caller, "POST", path, luks).denied("volume_type_encryption:create")
		b.do(caller, "PUT", path+"/x", `{"encryption":{}}`).denied("volume_type_encryption:update")
		b.do(caller, "DELETE", path+"/x", "").denied("volume_type_encryption:delete")
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "GET"} {
		at := map[string]string{"POST": "", "GET": ""}
		route := "/types/none/encryption"
		if _, collection := at[method]; !collection {
			route += "/x"
		}
		body := ""
		if method == "POST" || method == "PUT" {
			body = luks
		}
		b.do(admin, method, route, body).fails(404, "itemNotFound", "Volume type none could not be found.")
	}
	codes := together(4, func(int) int { return b.do(admin, "POST", path, luks).code })
	require.ElementsMatch(t, []int{200, 400, 400, 400}, codes)
}
