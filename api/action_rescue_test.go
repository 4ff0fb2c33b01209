package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-26: a rescue names its image, or takes the server's own; the answer has a
// password, which is kept nowhere.
func TestRescue(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-a-rescue"
	other := uuid.Nil.String()
	for name, v := range map[string]struct {
		from     compute.VMState
		body     string
		image    string // "": the server's own
		password string // "": one is made
	}{
		"null":           {compute.VMActive, `{"rescue": null}`, "", ""},
		"nothing said":   {compute.VMStopped, `{"rescue": {}}`, "", ""},
		"a password":     {compute.VMError, `{"rescue": {"adminPass": "` + canary + `"}}`, "", canary},
		"an image":       {compute.VMActive, `{"rescue": {"rescue_image_ref": "` + other + `"}}`, other, ""},
		"both":           {compute.VMActive, `{"rescue": {"rescue_image_ref": "` + other + `", "adminPass": "` + canary + `"}}`, other, canary},
		"empty password": {compute.VMActive, `{"rescue": {"adminPass": ""}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			c.addImage(func(img *compute.Image) { img.ID, img.Name = compute.ImageID{}, "other" })
			id := c.active()
			c.settle(id, v.from, compute.TaskNone)
			got := c.act(t, member, id, v.body).ok(200)
			require.Equal(t, []string{"adminPass"}, got.keys())
			if v.password != "" {
				require.Equal(t, v.password, got.get("adminPass"))
			} else {
				require.Len(t, got.get("adminPass"), 12)
			}
			ops := c.starter.ops()
			op := ops[len(ops)-1]
			require.Equal(t, compute.OpRescue, op.Kind)
			require.NotContains(t, string(op.Arguments), got.get("adminPass"))
			require.NotContains(t, c.log.String(), got.get("adminPass"))
			require.Zero(t, c.count(`SELECT count(*) FROM operations WHERE arguments::text LIKE '%' || $1 || '%'`, got.get("adminPass")))
			require.Zero(t, c.count(`SELECT count(*) FROM servers s WHERE s::text LIKE '%' || $1 || '%'`, got.get("adminPass")))
			var in compute.RescueArguments
			require.NoError(t, json.Unmarshal(op.Arguments, &in))
			want := v.image
			if want == "" {
				want = c.image
			}
			require.Equal(t, want, in.Image.ID.String())
			require.Equal(t, compute.TaskRescuing, c.row(id).TaskState)
			c.act(t, member, id, v.body).fails(409, "conflictingRequest",
				"Cannot 'rescue' instance "+id+" while it is in task_state rescuing")
		})
	}
}

func TestRescueRefuses(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id, rescued := c.active(), c.active()
	c.settle(rescued, compute.VMRescued, compute.TaskNone)
	missing := uuid.NewString()
	hidden := c.addImage(func(img *compute.Image) { img.Visibility, img.Owner = "private", elsewhere })
	queued := c.addImage(func(img *compute.Image) { img.Status = "queued" })
	vmdk := c.addImage(func(img *compute.Image) { img.DiskFormat = "vmdk" })
	odd := c.addImage(func(img *compute.Image) { img.Properties["os_encrypt_key_id"] = "x" })
	large := c.addImage(func(img *compute.Image) { img.Properties["large"] = strings.Repeat("x", 65<<10) })
	with := func(image string) string { return `{"rescue": {"rescue_image_ref": "` + image + `"}}` }
	for name, v := range map[string]struct {
		id, body string
		code     int
		message  string
	}{
		"no such image":    {id, with(missing), 400, "Requested rescue image '" + missing + "' is not supported"},
		"somebody's image": {id, with(hidden), 400, "Requested rescue image '" + hidden + "' is not supported"},
		"no data":          {id, with(queued), 400, "Image " + queued + " is not active."},
		"a strange format": {id, with(vmdk), 400, "has the disk format 'vmdk'"},
		"no key":           {id, with(odd), 400, "invalid os_encrypt_key_id"},
		"K15: too large":   {id, with(large), 400, "65 KiB of properties and tags; a server keeps 64 KiB at most"},
		"no uuid":          {id, with("x"), 400, "rescue_image_ref"},
		"a key too many":   {id, `{"rescue": {"image": "x"}}`, 400, "Additional properties are not allowed"},
		"text":             {id, `{"rescue": "now"}`, 400, "rescue"},
		"rescued already":  {rescued, `{"rescue": null}`, 409, "Cannot 'rescue' instance " + rescued + " while it is in vm_state rescued"},
		"not rescued":      {id, `{"unrescue": null}`, 409, "Cannot 'unrescue' instance " + id + " while it is in vm_state active"},
		"stop":             {rescued, `{"os-stop": null}`, 409, "Cannot 'stop' instance " + rescued + " while it is in vm_state rescued"},
		"reboot":           {rescued, `{"reboot": {"type": "HARD"}}`, 409, "Cannot 'reboot' instance " + rescued + " while it is in vm_state rescued"},
		"createImage":      {rescued, `{"createImage": {"name": "n"}}`, 409, "Cannot 'createImage' instance " + rescued + " while it is in vm_state rescued"},
		"no such server":   {uuid.Nil.String(), with(missing), 404, "could not be found"},
	} {
		got := c.act(t, member, v.id, v.body)
		require.Equal(t, v.code, got.code, "%s: %s", name, got.body)
		require.Contains(t, got.body, v.message, name)
	}
	c.imageStore.down = true
	c.act(t, member, id, with(missing)).ok(503)
	for _, body := range []string{`{"rescue": null}`, `{"unrescue": null}`} {
		c.act(t, reader, id, body).ok(403)
		c.act(t, stranger, id, body).ok(404)
	}
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
}

func TestUnrescue(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.settle(id, compute.VMRescued, compute.TaskNone)
	c.exec(`INSERT INTO server_disks (id, server_id, role, device_name, size_mb, boot_index) VALUES ($1, $2, 'rescue', '/dev/vda', 64, 0)`, uuid.New(), id)
	require.Equal(t, "RESCUE", c.do(t, member, "GET", "/servers/"+id, "").ok(200).get("server", "status"))
	disks := c.do(t, member, "GET", "/servers/"+id+"/disks", "", at(extended)).ok(200)
	for i, want := range [][]any{{"rescue", "/dev/vda"}, {"root", "/dev/vdb"}, {"ephemeral", "/dev/vdc"}, {"swap", "/dev/vdd"}} {
		require.Equal(t, want, []any{disks.get("disks", i, "role"), disks.get("disks", i, "device_name")})
	}
	c.act(t, member, id, `{"unrescue": null}`).is(202, "")
	ops := c.starter.ops()
	require.Equal(t, compute.OpUnrescue, ops[len(ops)-1].Kind)
	require.Equal(t, compute.TaskUnrescuing, c.row(id).TaskState)
	c.do(t, member, "DELETE", "/servers/"+id, "").ok(204)
}
