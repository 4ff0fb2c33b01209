package volume_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api/volume"
)

const extended = "volume 3.71, strongroom 1.0"

func TestCreate(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	made := b.do(admin, "POST", "/types", `{"volume_type":{"name":"one","description":"d","os-volume-type-access:is_public":"no",
		"extra_specs":{"a key/x":null,"multiattach":"<is> True"}}}`).thing("volume_type")
	require.Equal(t, map[string]any{
		"id": made["id"], "name": "one", "description": "d", "is_public": false, "os-volume-type-access:is_public": false,
		"extra_specs": map[string]any{"a key/x": nil, "multiattach": "<is> True"},
	}, made)
	shown := b.do(admin, "GET", "/types/"+made["id"].(string), "").thing("volume_type")
	require.Contains(t, shown, "qos_specs_id")
	delete(shown, "qos_specs_id")
	require.Equal(t, made, shown)
	b.do(admin, "POST", "/types", `{"volume_type":{"name":"one"}}`).fails(409, "conflictingRequest", "Volume Type one already exists.")
	const name = "An invalid 'name' value was provided. The name must be: printable characters with at least one non space character"
	for body, want := range map[string]string{
		``:                            "None is not of type 'object'",
		`{`:                           "Malformed request body",
		`[]`:                          "[] is not of type 'object'",
		`{}`:                          "'volume_type' is a required property",
		`{"volume_type":{}}`:          "Invalid input for field/attribute volume_type. Value: {}. 'name' is a required property",
		`{"volume_type":{"name":5}}`:  "Invalid input for field/attribute name. Value: 5. 5 is not of type 'string'",
		`{"volume_type":{"name":""}}`: name, `{"volume_type":{"name":"  "}}`: name, `{"volume_type":{"name":"a\u0000"}}`: name,
		`{"volume_type":{"name":"a","x":1}}`:                                    "Invalid input for field/attribute volume_type. Value: {'name': 'a', 'x': 1}. Additional properties are not allowed ('x' was unexpected)",
		`{"volume_type":{"name":"a","extra_specs":{"a?":"b"}}}`:                 "Invalid input for field/attribute extra_specs. Value: {'a?': 'b'}. 'a?' does not match any of the regexes: '^[a-zA-Z0-9-_:. /]{1,255}$'",
		`{"volume_type":{"name":"a","extra_specs":{"a":1}}}`:                    "Invalid input for field/attribute a. Value: 1. 1 is not of type 'string', 'null'",
		`{"volume_type":{"name":"a","id":"` + uuid.NewString() + `"}}`:          "Additional properties are not allowed ('id' was unexpected)",
		`{"volume_type":{"name":"a","extra_specs":{"a":"\u0000"}}}`:             "The request holds a character that cannot be stored.",
		`{"volume_type":{"name":"a","os-volume-type-access:is_public":null}}`:   "Invalid input for field/attribute os-volume-type-access:is_public. Value: None. None is not of type 'boolean', 'string'",
		exclusiveType(`"<is> True"`, `"<is> True"`):                             "cacheable cannot be set with multiattach.",
		exclusiveType(`"<is> true"`, `"<is>  TRUE "`):                           "cacheable cannot be set with multiattach.",
		`{"volume_type":{"name":"a","extra_specs":` + longObject(1200) + `}} x`: "Malformed request body",
	} {
		b.do(admin, "POST", "/types", body).fails(400, "badRequest", want)
	}
	require.Equal(t, []string{"one"}, b.do(admin, "GET", "/types?is_public=None", "").names(), "nothing was left")
	b.do(admin, "POST", "/types", exclusiveType(`"<is> False"`, `"<is> True"`)).ok(200)
	require.Len(t, b.do(admin, "POST", "/types", `{"volume_type":{"name":"many","extra_specs":`+longObject(1200)+`}}`).thing("volume_type")["extra_specs"], 1200)
}

func exclusiveType(multiattach, cacheable string) string {
	return `{"volume_type":{"name":"x","extra_specs":{"multiattach":` + multiattach + `,"cacheable":` + cacheable + `}}}`
}

func longObject(keys int) string {
	object := map[string]string{}
	for range keys {
		object[uuid.NewString()] = "x"
	}
	text, _ := json.Marshal(object)
	return string(text)
}

// S1: of a key that a body gives twice the last one counts.
func TestS1AKeyGivenTwiceIsReadOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	made := b.do(admin, "POST", "/types", `{"volume_type":{"description":"`+strings.Repeat("x", 5000)+`","extra_specs":{"a?":"b"}},"volume_type":{"name":"one"}}`).thing("volume_type")
	require.Nil(t, made["description"])
	require.Empty(t, made["extra_specs"])
}

// TestCreateWithID keeps the id of a type that comes from elsewhere, for clients
// that speak strongroom's extensions.
func TestCreateWithID(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	id := uuid.NewString()
	create := func(name string) answer {
		return b.do(admin, "POST", "/types", `{"volume_type":{"name":"`+name+`","id":"`+id+`"}}`, "OpenStack-API-Version", extended)
	}
	require.Equal(t, id, create("one").thing("volume_type")["id"])
	create("one").ok(409)
	create("two").fails(409, "conflictingRequest", "Volume Type "+id+" already exists.")
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	one := "/types/" + b.create("one", "")
	b.create("two", "")
	put := func(fields string) answer { return b.do(admin, "PUT", one, `{"volume_type":`+fields+`}`) }
	require.Empty(t, put(`{"description":""}`).thing("volume_type")["description"])
	require.Equal(t, "d", put(`{"description":"d","name":null}`).thing("volume_type")["description"])
	renamed := put(`{"name":"uno","description":null,"is_public":"f"}`).thing("volume_type")
	require.Equal(t, []any{"uno", "d", false}, []any{renamed["name"], renamed["description"], renamed["is_public"]})
	put(`{"name":"two"}`).fails(409, "conflictingRequest", "Volume Type two already exists.")
	for fields, want := range map[string]string{
		`{}`: "Specify volume type name, description, is_public or a combination thereof.", `{"name":null}`: "Specify volume type name, description, is_public or a combination thereof.",
		`{"name":" "}`:             "Volume type name can not be empty.",
		`{"name":""}`:              "Invalid input for field/attribute name. Value: . '' is too short",
		`{"extra_specs":{}}`:       "Invalid input for field/attribute volume_type. Value: {'extra_specs': {}}. Additional properties are not allowed ('extra_specs' was unexpected)",
		`{"description":"\u0000"}`: "Invalid input for field/attribute description. Value: \x00. '\\x00' is not a 'description'",
	} {
		put(fields).fails(400, "badRequest", want)
	}
	for _, id := range []string{"none", uuid.NewString(), strings.ToUpper("urn:uuid:" + uuid.NewString())} {
		b.do(admin, "PUT", "/types/"+id, `{"volume_type":{"name":"x"}}`).fails(404, "itemNotFound", "Volume type "+id+" could not be found.")
	}
	require.Equal(t, []string{"two"}, b.do(member, "GET", "/types", "").names(), "it is private now")
}

func TestDelete(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	standard, other := b.create("__DEFAULT__", ""), b.create("other", `{"a":"b"}`)
	for _, caller := range everyone {
		require.Equal(t, standard, b.do(caller, "GET", "/types/default", "").thing("volume_type")["id"])
	}
	b.do(admin, "DELETE", "/types/"+standard, "").
		fails(400, "badRequest", "The volume type "+standard+" is a default volume type and cannot be deleted.")
	b.do(admin, "DELETE", "/types/"+other, "").is(202, "")
	b.do(admin, "DELETE", "/types/"+other, "").fails(404, "itemNotFound", "Volume type "+other+" could not be found.")
	b.do(admin, "PUT", "/types/"+standard, `{"volume_type":{"name":"last"}}`).ok(200)
	b.do(admin, "DELETE", "/types/"+standard, "").
		fails(400, "badRequest", "The volume type "+standard+" is the only currently defined volume type and cannot be deleted.")
	for _, caller := range everyone {
		b.do(caller, "GET", "/types/default", "").fails(404, "itemNotFound", "Default volume type can not be found.")
	}
}

// TestPrivateDefault: a default type that a project does not see is none to it.
func TestPrivateDefault(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	b.createPrivate("__DEFAULT__")
	b.do(admin, "GET", "/types/default", "").ok(200)
	b.do(member, "GET", "/types/default", "").fails(404, "itemNotFound", "Default volume type can not be found.")
}

// TestDeletesAtOnce deletes all types at once: one is left.
func TestDeletesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	ids := []string{b.create("a", ""), b.create("b", ""), b.create("c", ""), b.create("d", "")}
	codes := together(len(ids), func(i int) int { return b.do(admin, "DELETE", "/types/"+ids[i], "").code })
	require.ElementsMatch(t, []int{202, 202, 202, 400}, codes)
	require.Equal(t, 1, b.count("SELECT count(*) FROM volume_types"))
}

// together does something several times at once.
func together(times int, do func(int) int) []int {
	codes := make([]int, times)
	var group sync.WaitGroup
	for i := range times {
		group.Go(func() { codes[i] = do(i) })
	}
	group.Wait()
	return codes
}

func TestExtraSpecWrites(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	path := "/types/" + b.create("one", "") + "/extra_specs"
	b.do(admin, "POST", path, `{"extra_specs":{}}`).is(200, `{"extra_specs":{}}`)
	b.do(admin, "POST", path, `{"extra_specs":{"a":"b","n":null}}`).is(200, `{"extra_specs":{"a":"b","n":null}}`)
	b.do(admin, "PUT", path+"/new", `{"new":"x"}`).is(200, `{"new":"x"}`)
	b.do(admin, "PUT", path+"/a", `{"a":null}`).is(200, `{"a":null}`)
	b.do(admin, "GET", path, "").is(200, `{"extra_specs":{"a":null,"n":null,"new":"x"}}`)
	b.do(admin, "DELETE", path+"/a", "").is(202, "")
	b.do(admin, "DELETE", path+"/a", "").ok(404)
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", path, `{}`, "'extra_specs' is a required property"},
		{"POST", path, `{"extra_specs":{"a b":"c"}}`, "Invalid input for field/attribute extra_specs. Value: {'a b': 'c'}. 'a b' does not match any of the regexes: '^[a-zA-Z0-9-_:.]{1,255}$'"},
		{"POST", path, `{"extra_specs":{"a":"\u0000"}}`, "The request holds a character that cannot be stored."},
		{"PUT", path + "/a", `{"b":"c"}`, "Request body and URI mismatch"},
		{"PUT", path + "/a", `{"a":"c","b":"d"}`, "{'a': 'c', 'b': 'd'} has too many properties"},
		{"PUT", path + "/a", `{}`, "{} does not have enough properties"},
	} {
		b.do(admin, c.method, c.path, c.body).fails(400, "badRequest", c.want)
	}
	b.do(admin, "POST", "/types/none/extra_specs", `{"extra_specs":{}}`).fails(404, "itemNotFound", "Volume type none could not be found.")

	// A key with a slash comes from a new type; its path names it escaped.
	slashed := "/types/" + b.create("slashed", `{"a/b c":"d"}`) + "/extra_specs/a%2Fb%20c"
	b.do(admin, "GET", slashed, "").is(200, `{"a/b c":"d"}`)
	b.do(admin, "DELETE", slashed, "").is(202, "")
}

// TestCacheableOrMultiattach: no write, by whatever route, leaves both.
func TestCacheableOrMultiattach(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	const refused = "cacheable cannot be set with multiattach."
	for first, second := range map[string]string{"multiattach": "cacheable", "cacheable": "multiattach"} {
		path := "/types/" + b.create(first, "") + "/extra_specs"
		b.do(admin, "PUT", path+"/"+first, `{"`+first+`":"<is> True"}`).ok(200)
		b.do(admin, "PUT", path+"/"+second, `{"`+second+`":"<is> True"}`).fails(400, "badRequest", refused)
		b.do(admin, "POST", path, `{"extra_specs":{"`+second+`":"<is> True"}}`).fails(400, "badRequest", refused)
		b.do(admin, "POST", path, `{"extra_specs":{"`+second+`":"<is> False","x":"y"}}`).ok(200)
		b.do(admin, "POST", path, `{"extra_specs":{"`+second+`":"<is> True","`+first+`":"<is> False"}}`).ok(200)
	}
	path := "/types/" + b.create("both", "") + "/extra_specs"
	b.do(admin, "POST", path, `{"extra_specs":{"multiattach":"<is> True","cacheable":"<is> True"}}`).fails(400, "badRequest", refused)
	codes := together(8, func(i int) int {
		key := []string{"multiattach", "cacheable"}[i%2]
		return b.do(admin, "PUT", path+"/"+key, `{"`+key+`":"<is> True"}`).code
	})
	require.Contains(t, codes, 200)
	require.Contains(t, codes, 400)
	require.Len(t, b.do(admin, "GET", path, "").thing("extra_specs"), 1)
}

func TestBodies(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	const body = `{"volume_type":{"name":"a"}}`
	b.do(admin, "POST", "/types", body, "Content-Type", "application/xml").fails(415, "badMediaType", "Unsupported Content-Type")
	b.do(admin, "POST", "/types", `{"volume_type":{"name":"`+strings.Repeat("a", volume.MaxBody)+`"}}`).ok(http.StatusRequestEntityTooLarge)
	for i, kind := range []string{"application/json; charset=utf-8", "application/vnd.openstack.volume+json", ""} {
		b.do(admin, "POST", "/types", strings.ReplaceAll(body, `"a"`, `"`+string(rune('a'+i))+`"`), "Content-Type", kind).ok(200)
	}
}
