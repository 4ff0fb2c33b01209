package api_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestServerMetadata(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	path := "/servers/" + id + "/metadata"
	do := func(method, key, body string) answer { return c.do(t, member, method, path+key, body) }
	do("GET", "", "").is(200, `{"metadata":{}}`)
	do("POST", "", `{"metadata":{"a":"1","b":"2"}}`).is(200, `{"metadata":{"a":"1","b":"2"}}`)
	do("POST", "", `{"metadata":{"b":"3"}}`).is(200, `{"metadata":{"a":"1","b":"3"}}`)
	do("GET", "/b", "").is(200, `{"meta":{"b":"3"}}`)
	do("PUT", "/c", `{"meta":{"c":"4"}}`).is(200, `{"meta":{"c":"4"}}`)
	do("DELETE", "/a", "").is(204, "")
	do("GET", "", "").is(200, `{"metadata":{"b":"3","c":"4"}}`)
	do("PUT", "", `{"metadata":{"z":""}}`).is(200, `{"metadata":{"z":""}}`)

	do("GET", "/a", "").fails(404, "itemNotFound", "Metadata item was not found")
	do("DELETE", "/a", "").fails(404, "itemNotFound", "Metadata item was not found")
	do("PUT", "/c", `{"meta":{"d":"4"}}`).fails(400, "badRequest", "Request body and URI mismatch")
	do("PUT", "/c", `{"meta":{"c":"4","d":"5"}}`).ok(400)
	do("POST", "", `{"metadata":{"a":1}}`).fails(400, "badRequest", "Invalid input for field/attribute a. Value: 1. 1 is not of type 'string'")
	var many []string
	for i := range 128 {
		many = append(many, fmt.Sprintf(`"k%d":"v"`, i))
	}
	do("POST", "", `{"metadata":{`+strings.Join(many, ",")+`}}`).fails(403, "forbidden", "Maximum number of metadata items exceeds 128")
	do("GET", "", "").is(200, `{"metadata":{"z":""}}`)
	c.do(t, reader, "POST", path, `{"metadata":{}}`).ok(403)

	c.settle(id, compute.VMError, compute.TaskNone)
	do("POST", "", `{"metadata":{"a":"1"}}`).fails(409, "conflictingRequest", "Cannot 'update metadata' instance "+id+" while it is in vm_state error")
	do("DELETE", "/z", "").fails(409, "conflictingRequest", "Cannot 'delete metadata' instance "+id+" while it is in vm_state error")
}

func TestMetadataIsNotLost(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			c.do(t, member, "POST", "/servers/"+id+"/metadata", fmt.Sprintf(`{"metadata":{"k%d":"v"}}`, i))
		})
	}
	all.Wait()
	require.Len(t, c.row(id).Metadata, 20)
}

func TestServerTags(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	path := "/servers/" + id + "/tags"
	do := func(method, tag, body string) answer { return c.do(t, member, method, path+tag, body, at("2.26")) }
	do("GET", "", "").is(200, `{"tags":[]}`)
	do("PUT", "", `{"tags":["a","b","a"]}`).is(200, `{"tags":["a","b"]}`)
	a := do("PUT", "/c", "").is(201, "")
	require.Equal(t, "http://cloud.example:8774/v2.1"+path+"/c", a.header.Get("Location"))
	do("PUT", "/c", "").is(204, "")
	do("GET", "/c", "").is(204, "")
	do("GET", "/d", "").fails(404, "itemNotFound", "Server "+id+" has no tag 'd'")
	do("DELETE", "/a", "").is(204, "")
	do("DELETE", "/a", "").fails(404, "itemNotFound", "Server "+id+" has no tag 'a'")
	do("GET", "", "").is(200, `{"tags":["b","c"]}`)
	require.Equal(t, []any{"b", "c"}, c.do(t, member, "GET", "/servers/"+id, "", at("2.26")).get("server", "tags"))
	do("PUT", "/"+strings.Repeat("x", 61), "").ok(400)
	do("PUT", "", `{"tags":["a,b"]}`).ok(400)
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf(`"t%d"`, i))
	}
	do("PUT", "", `{"tags":[`+strings.Join(many, ",")+`]}`).ok(200)
	do("PUT", "/more", "").fails(400, "badRequest", "The number of tags exceeded the per-server limit 50")
	do("DELETE", "", "").is(204, "")
	do("GET", "", "").is(200, `{"tags":[]}`)
	c.do(t, member, "GET", path, "", at("2.25")).fails(404, "itemNotFound", "API version 2.25 is not supported on this method.")
}

// K3: a tag by itself is one that could be in a list of tags, its address leads to it, and a path with more parts leads nowhere.
func TestK3ATagIsOneOfAList(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	do := func(method, tag string) answer {
		return c.do(t, member, method, "/servers/"+id+"/tags/"+tag, "", at("2.26"))
	}
	do("PUT", "a,b").fails(400, "badRequest", "Tag 'a,b' is invalid. It must be a non empty string without characters '/' and ','.")
	do("PUT", "a%2Fb").fails(400, "badRequest", "Tag 'a/b' is invalid. It must be a non empty string without characters '/' and ','.")
	for _, written := range []string{"x%20y", "x%0Ay", "%C3%A4", "a%3Fb"} {
		location := do("PUT", written).is(201, "").header.Get("Location")
		_, path, found := strings.Cut(location, "/v2.1")
		require.True(t, found, location)
		c.do(t, member, "GET", path, "", at("2.26")).is(204, "")
	}
	c.exec(`UPDATE servers SET tags = '{a/b}' WHERE id = $1`, id) // as it could be put until now
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		do(method, "a/b").fails(404, "itemNotFound", "The resource could not be found.")
	}
	do("DELETE", "a%2Fb").is(204, "")
	for _, path := range []string{"/os-keypairs/a/b", "/flavors/" + flavorID + "/os-extra_specs/a/b", "/servers/" + id + "/metadata/a/b", "/servers/" + id + "/os-interface/a/b"} {
		c.do(t, admin, "GET", path, "", at("2.90")).fails(404, "itemNotFound", "The resource could not be found.")
	}
}

func TestWhatClientsAskForBesideAServer(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	get := func(path string) answer { return c.do(t, member, "GET", "/servers/"+id+path, "") }
	get("/ips").is(200, `{"addresses":{}}`)
	get("/ips/lan").fails(404, "itemNotFound", "Instance is not a member of specified network")
	get("/os-interface").is(200, `{"interfaceAttachments":[]}`)
	get("/os-volume_attachments").is(200, `{"volumeAttachments":[]}`)
	get("/os-security-groups").is(200, `{"security_groups":[{"id":"default","name":"default","description":"Default security group","tenant_id":"`+project+`","rules":[]}]}`)
}

func TestInsideOfAServer(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.addFlavor("secret", map[string]string{"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "luks"})
	id := c.create(map[string]any{"flavorRef": "secret"})
	secret := "5b0a3c46-8d8e-4c43-9f5e-0e3f5f4f7a11"
	c.exec(`UPDATE server_disks SET encryption_secret_uuid = $2, encryption_options = '{"cipher-alg":"aes-256"}' WHERE server_id = $1 AND role = 'root'`, id, secret)
	speak := header("OpenStack-API-Version", "compute 2.90, strongroom 1.0")
	disks := c.do(t, member, "GET", "/servers/"+id+"/disks", "", speak).ok(200)
	require.JSONEq(t, `{"id":"`+c.text(`SELECT id::text FROM server_disks WHERE role = 'root'`)+`","role":"root","device_name":"/dev/vda","bus":"virtio",
		"size_mb":1024,"boot_index":0,"guest_format":null,"image_id":"`+c.image+`","tag":null,"encrypted":true,"encryption_format":"luks",
		"encryption_secret_uuid":"`+secret+`","backing_encryption_secret_uuid":null,"encryption_options":{"cipher-alg":"aes-256"}}`,
		encode(t, disks.get("disks", 0)))
	require.Len(t, disks.get("disks"), 3)

	op := string(c.starter.ops()[0].ID)
	c.exec(`INSERT INTO operation_events (operation_id, event, started_at) VALUES ($1, 'claim_host', now()), ($1, 'cache_image', now())`, op)
	operations := c.do(t, member, "GET", "/servers/"+id+"/operations", "", speak).ok(200)
	require.ElementsMatch(t, []string{
		"id", "kind", "state", "message", "user_id", "project_id", "accepted_at", "started_at", "finished_at", "events", "progress",
	}, operations.keys("operations", 0))
	require.Equal(t, op, operations.get("operations", 0, "id"))
	require.Equal(t, "cache_image", operations.get("operations", 0, "events", 1, "event"))

	require.Nil(t, operations.get("operations", 0, "progress"))
	one := "/operations/" + op
	c.starter.progress = &compute.Progress{Phase: "download", Done: 5, Total: 10}
	require.Nil(t, c.do(t, member, "GET", "/servers/"+id+one, "", speak).ok(200).get("operation", "progress"), "it does not run")
	c.exec(`UPDATE operations SET state = 'running' WHERE id = $1`, op)
	require.Equal(t, map[string]any{"phase": "download", "done": 5., "total": 10., "unit": "bytes"},
		c.do(t, member, "GET", "/servers/"+id+one, "", speak).ok(200).get("operation", "progress"))
	c.do(t, member, "GET", "/servers/"+id+"/operations/req-none", "", speak).fails(404, "itemNotFound", "Operation req-none could not be found.")

	for _, path := range []string{"/disks", "/operations", one} {
		c.do(t, member, "GET", "/servers/"+id+path, "", at("2.90")).fails(404, "itemNotFound", "The resource could not be found.")
		c.do(t, stranger, "GET", "/servers/"+id+path, "", speak).fails(404, "itemNotFound", "Instance "+id+" could not be found.")
	}
}

// Members of the project may cancel what runs, but no delete, nothing that an administrator of another project asked for, and no step of an
// operator's drain (S5).
func TestS5CancelOperation(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(nil)
	op := string(c.starter.ops()[0].ID)
	speak := header("OpenStack-API-Version", "compute 2.90, strongroom 1.0")
	cancel := func(as who, tweaks ...tweak) answer {
		return c.do(t, as, "DELETE", "/servers/"+id+"/operations/"+op, "", tweaks...)
	}
	conflict := func(message string) {
		t.Helper()
		cancel(member, speak).fails(409, "conflictingRequest", message)
	}
	conflict("Operation " + op + " has not begun yet. Try again later.")
	c.exec(`UPDATE operations SET state = 'running' WHERE id = $1`, op)
	cancel(member).fails(404, "itemNotFound", "The resource could not be found.")
	cancel(reader, speak).fails(403, "forbidden", "Policy doesn't allow strongroom:servers:cancel_operation to be performed.")
	cancel(stranger, speak).fails(404, "itemNotFound", "Instance "+id+" could not be found.")
	require.Empty(t, c.starter.cancelled)
	cancel(member, speak).is(202, "")
	require.Equal(t, []compute.OperationID{compute.OperationID(op)}, c.starter.cancelled)
	c.exec(`UPDATE operations SET project_id = $2 WHERE id = $1`, op, elsewhere)
	cancel(member, speak).fails(403, "forbidden", "Operation "+op+" was asked for by somebody of another project.")
	cancel(admin, speak).is(202, "")
	c.exec(`UPDATE operations SET project_id = $2, user_id = '' WHERE id = $1`, op, project) // as drain begins them
	cancel(member, speak).fails(403, "forbidden", "Nobody of this project asked for operation "+op+": administrators alone cancel it.")
	require.Len(t, c.starter.cancelled, 2)
	cancel(admin, speak).is(202, "")
	c.exec(`UPDATE operations SET kind = 'start' WHERE id = $1`, op)
	cancel(member, speak).is(202, "")
	c.exec(`UPDATE operations SET user_id = 'user-member', kind = 'delete' WHERE id = $1`, op)
	conflict("Operation " + op + " is a delete, which cannot be cancelled.")
	c.exec(`UPDATE operations SET kind = 'create', state = 'failed' WHERE id = $1`, op)
	conflict("Operation " + op + " has ended: it is failed.")
}
