package api_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// lockedUp makes a server that runs, whose root and ephemeral disks are encrypted.
func (c *cloud) lockedUp(security string) string {
	c.t.Helper()
	id := c.active()
	c.exec(`UPDATE server_disks SET encrypted = true, encryption_format = 'luks', encryption_secret_uuid = $2
		WHERE server_id = $1 AND role <> 'swap'`, id, uuid.New())
	c.exec(`UPDATE servers SET flavor = jsonb_set(flavor, '{extra_specs}', jsonb_build_object('hw:ephemeral_encryption_secret_security', $2::text))
		WHERE id = $1`, id, security)
	return id
}

func TestRotateKeys(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		body     string
		security string
		by       who
		disks    []string
		vm       compute.VMState
		asked    []string // projects whose right to make secrets is asked for
	}{
		"all":              {`{"rotateKeys": null}`, "user", member, nil, compute.VMActive, []string{project}},
		"all, an object":   {`{"rotateKeys": {}}`, "user", creator, nil, compute.VMStopped, []string{project}},
		"some":             {`{"rotateKeys": {"disks": ["ephemeral0"]}}`, "user", member, []string{"ephemeral0"}, compute.VMPaused, []string{project}},
		"with a trust":     {`{"rotateKeys": null}`, "host", admin, nil, compute.VMActive, nil},
		"strongroom's own": {`{"rotateKeys": null}`, "deployment", admin, nil, compute.VMActive, []string{compute.DeploymentProject}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			id := c.lockedUp(v.security)
			c.settle(id, v.vm, compute.TaskNone)
			c.keys.asked = nil
			c.act(t, v.by, id, v.body, at(extended)).is(202, "")
			ops := c.starter.ops()
			op := ops[len(ops)-1]
			require.Equal(t, compute.OpRotateKeys, op.Kind)
			var in compute.RotateArguments
			require.NoError(t, json.Unmarshal(op.Arguments, &in))
			require.Equal(t, v.disks, in.Disks)
			row := c.row(id)
			require.Equal(t, compute.TaskRotatingKeys, row.TaskState)
			require.Equal(t, v.vm, row.VMState)
			var asked []string
			for _, cred := range c.keys.asked {
				asked = append(asked, cred.ProjectID)
			}
			require.Equal(t, v.asked, asked)
			c.act(t, v.by, id, v.body, at(extended)).fails(409, "conflictingRequest",
				"Cannot 'rotateKeys' instance "+id+" while it is in task_state rotating_keys")
		})
	}
}

// What cannot succeed is refused at once, and changes nothing.
func TestRotateKeysRefuses(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.lockedUp("user")
	plain := c.active()
	own := at(extended)
	c.act(t, member, id, `{"rotateKeys": null}`, at("2.90")).fails(400, "badRequest", "There is no such action: rotateKeys")
	for name, v := range map[string]struct {
		id, body string
		by       who
		code     int
		message  string
	}{
		"no such disk":    {id, `{"rotateKeys": {"disks": ["vda"]}}`, member, 400, "It has: root, ephemeral0, swap."},
		"twice":           {id, `{"rotateKeys": {"disks": ["root", "root"]}}`, member, 400, "named twice"},
		"none":            {id, `{"rotateKeys": {"disks": []}}`, member, 400, "disks"},
		"something else":  {id, `{"rotateKeys": {"disk": "root"}}`, member, 400, "Additional properties are not allowed"},
		"no object":       {id, `{"rotateKeys": "root"}`, member, 400, "rotateKeys"},
		"a plain disk":    {id, `{"rotateKeys": {"disks": ["swap"]}}`, member, 409, "is not encrypted"},
		"a plain server":  {plain, `{"rotateKeys": null}`, member, 409, "has no encrypted disk"},
		"a reader":        {id, `{"rotateKeys": null}`, reader, 403, "strongroom:servers:rotate_keys"},
		"another project": {id, `{"rotateKeys": null}`, stranger, 404, "could not be found"},
	} {
		got := c.act(t, v.by, v.id, v.body, own)
		require.Equal(t, v.code, got.code, "%s: %s", name, got.body)
		require.Contains(t, got.body, v.message, name)
	}
	t.Run("an admin of elsewhere and keys of the owner's", func(t *testing.T) {
		c.exec(`UPDATE servers SET project_id = $2 WHERE id = $1`, id, elsewhere)
		got := c.act(t, admin, id, `{"rotateKeys": null}`, own)
		require.Equal(t, 403, got.code, got.body)
		require.Contains(t, got.body, "belong to its owner")
		c.exec(`UPDATE servers SET project_id = $2 WHERE id = $1`, id, project)
	})
	t.Run("who may not make secrets", func(t *testing.T) {
		c.keys.answer = compute.Errorf(compute.Forbidden, "no")
		got := c.act(t, member, id, `{"rotateKeys": null}`, own)
		require.Equal(t, 403, got.code, got.body)
		require.Contains(t, got.body, "creator")
		c.keys.answer = compute.Errorf(compute.Unavailable, "no")
		require.Equal(t, 503, c.act(t, member, id, `{"rotateKeys": null}`, own).code)
		c.keys.answer = nil
	})
	t.Run("legacy encryption", func(t *testing.T) {
		c.exec(`UPDATE server_disks SET encryption_format = 'plain' WHERE server_id = $1 AND encrypted`, id)
		got := c.act(t, member, id, `{"rotateKeys": null}`, own)
		require.Equal(t, 409, got.code, got.body)
		require.Contains(t, got.body, "only the keys of luks disks")
	})
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
	require.Len(t, c.starter.ops(), 2, "the two creates")
	c.settle(id, compute.VMError, compute.TaskNone)
	c.act(t, member, id, `{"rotateKeys": null}`, own).fails(409, "conflictingRequest", "Cannot 'rotateKeys' instance "+id+" while it is in vm_state error")
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.act(t, member, id, `{"lock": null}`).ok(202)
	require.Equal(t, 409, c.act(t, member, id, `{"rotateKeys": null}`, own).code, "a lock keeps others from it")
}
