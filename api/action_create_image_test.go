package api_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

const extended = "2.90, strongroom 1.0"

// EE-16, EE-20: createImage in Nova's shape, and with strongroom 1.0 in the
// document's.
func TestCreateImage(t *testing.T) {
	t.Parallel()
	secret := uuid.NewString()
	for name, v := range map[string]struct {
		version, body string
		key           compute.KeyChoice
		secret        string
	}{
		"Nova's":          {"2.45", `{"createImage": {"name": "copy", "metadata": {"a": "b"}}}`, compute.KeySame, ""},
		"before 2.45":     {"2.44", `{"createImage": {"name": "copy"}}`, compute.KeySame, ""},
		"nothing said":    {extended, `{"createImage": {"name": "copy"}}`, compute.KeySame, ""},
		"same":            {extended, `{"createImage": {"name": "copy", "encryption": {"key": "same"}}}`, compute.KeySame, ""},
		"a new key":       {extended, `{"createImage": {"name": "copy", "encryption": {"key": "new"}}}`, compute.KeyNew, ""},
		"an existing key": {extended, `{"createImage": {"name": "copy", "encryption": {"key": "existing", "secret_uuid": "` + secret + `"}}}`, compute.KeyExisting, secret},
		"no key":          {extended, `{"createImage": {"name": "copy", "encryption": {"key": "none"}}}`, compute.KeyNone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			id := c.active()
			got := c.act(t, member, id, v.body, at(v.version)).ok(202)
			ops := c.starter.ops()
			op := ops[len(ops)-1]
			require.Equal(t, compute.OpCreateImage, op.Kind)
			var in compute.SnapshotArguments
			require.NoError(t, json.Unmarshal(op.Arguments, &in))
			require.Equal(t, v.key, in.Key)
			if v.secret != "" {
				require.Equal(t, v.secret, in.Secret.String())
			}
			require.Equal(t, "copy", in.Name)
			require.Equal(t, []compute.Operation{op}, c.starter.waited)
			if v.version == "2.44" {
				require.Empty(t, got.body)
				require.Contains(t, got.header.Get("Location"), "/images/"+in.Image.String())
			} else {
				require.Equal(t, in.Image.String(), got.get("image_id"))
				require.Empty(t, got.header.Get("Location"))
			}
			require.Equal(t, compute.TaskSnapshotPending, c.row(id).TaskState)
			c.act(t, member, id, v.body, at(v.version)).fails(409, "conflictingRequest",
				"Cannot 'createImage' instance "+id+" while it is in task_state image_snapshot_pending")
		})
	}
}

// EE-18, EE-20: what makes no sense is refused and changes nothing.
func TestCreateImageRefuses(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	for name, v := range map[string]struct{ version, body, message string }{
		"encryption without our version": {"2.90", `{"createImage": {"name": "n", "encryption": {"key": "new"}}}`, "Additional properties are not allowed"},
		"no such choice":                 {extended, `{"createImage": {"name": "n", "encryption": {"key": "mine"}}}`, "is not one of"},
		"no choice":                      {extended, `{"createImage": {"name": "n", "encryption": {}}}`, "'key' is a required property"},
		"no secret":                      {extended, `{"createImage": {"name": "n", "encryption": {"key": "existing"}}}`, "encryption.secret_uuid is required"},
		"a secret too many":              {extended, `{"createImage": {"name": "n", "encryption": {"key": "new", "secret_uuid": "` + uuid.NewString() + `"}}}`, "encryption.secret_uuid is only allowed"},
		"no uuid":                        {extended, `{"createImage": {"name": "n", "encryption": {"key": "existing", "secret_uuid": "x"}}}`, "secret_uuid"},
		"no name":                        {"2.90", `{"createImage": {}}`, "'name' is a required property"},
	} {
		got := c.act(t, member, id, v.body, at(v.version))
		require.Equal(t, 400, got.code, name)
		require.Contains(t, got.body, v.message, name)
	}
	c.act(t, reader, id, `{"createImage": {"name": "n"}}`, at("2.90")).ok(403)
	c.act(t, stranger, id, `{"createImage": {"name": "n"}}`, at("2.90")).ok(404)
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
	require.Empty(t, c.starter.waited)

	// A lock keeps nobody from it.
	c.act(t, member, id, `{"lock": null}`).ok(202)
	c.act(t, member, id, `{"createImage": {"name": "n"}}`, at("2.90")).ok(202)
}

// EE-22: a backup is Nova's own at every version, and has the server's key.
func TestCreateBackup(t *testing.T) {
	t.Parallel()
	const body = `{"createBackup": {"name": "nightly", "backup_type": "daily", "rotation": %s, "metadata": {"a": "b"}}}`
	for name, v := range map[string]struct {
		version, rotation string
		located           bool
	}{
		"by id":                  {"2.45", "2", false},
		"by address":             {"2.44", `"2"`, true},
		"one that does not stay": {"2.44", "0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			id := c.active()
			got := c.act(t, member, id, fmt.Sprintf(body, v.rotation), at(v.version)).ok(202)
			ops := c.starter.ops()
			op := ops[len(ops)-1]
			require.Equal(t, compute.OpCreateBackup, op.Kind)
			var in compute.SnapshotArguments
			require.NoError(t, json.Unmarshal(op.Arguments, &in))
			require.Equal(t, compute.KeySame, in.Key)
			require.Equal(t, "daily", in.Backup.Type)
			require.Equal(t, strings.Trim(v.rotation, `"`), strconv.Itoa(in.Backup.Rotation))
			require.Equal(t, []compute.Operation{op}, c.starter.waited)
			require.Equal(t, v.located, got.header.Get("Location") != "")
			if v.version == "2.45" {
				require.Equal(t, in.Image.String(), got.get("image_id"))
			}
			require.Equal(t, compute.TaskBackup, c.row(id).TaskState)
		})
	}
	c := setupCloud(t)
	id := c.active()
	for name, v := range map[string]struct{ version, body, message string }{
		"no rotation":      {"2.90", `{"createBackup": {"name": "n", "backup_type": "daily"}}`, "'rotation' is a required property"},
		"a negative one":   {"2.90", `{"createBackup": {"name": "n", "backup_type": "daily", "rotation": -1}}`, "rotation"},
		"no type":          {"2.90", `{"createBackup": {"name": "n", "rotation": 1}}`, "'backup_type' is a required property"},
		"a key of its own": {extended, `{"createBackup": {"name": "n", "backup_type": "d", "rotation": 1, "encryption": {"key": "new"}}}`, "Additional properties"},
	} {
		got := c.act(t, member, id, v.body, at(v.version))
		require.Equal(t, 400, got.code, name)
		require.Contains(t, got.body, v.message, name)
	}
	c.act(t, reader, id, fmt.Sprintf(body, "1"), at("2.90")).ok(403)
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
}

// EE-46: the key of a server's disk is refused at once, where the caller's project has it, and the
// message says what to do. What is another project's the api does not tell: the operation
// finds that out once it has read it.
func TestEE46AServersKeyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	server := uuid.MustParse(id)
	for _, of := range []string{project, elsewhere} {
		secret := uuid.NewString()
		_, err := c.pool.Exec(t.Context(), `INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
			VALUES ($1, 'key_secret', 'key-manager', $2, $3, 'server', $4, 'req-x', $1, $5, 'u', 'present')`, uuid.New(), "secret of "+of, secret, server, of)
		require.NoError(t, err)
		body := `{"createImage": {"name": "copy", "encryption": {"key": "existing", "secret_uuid": "` + secret + `"}}}`
		if of == elsewhere {
			c.act(t, member, id, body, at(extended)).ok(202)
			continue
		}
		c.act(t, member, id, body, at(extended)).fails(409, "conflictingRequest", compute.ErrSecretOfServer(compute.SecretID{UUID: uuid.MustParse(secret)}).Error())
		require.Empty(t, c.row(id).TaskState)
	}
}
