package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

var allTraits = []string{
	compute.TraitEncryption, compute.TraitEncryptionLUKS, compute.TraitTPM12, compute.TraitTPM20, compute.TraitTPMTIS, compute.TraitTPMCRB,
	compute.TraitTPMUser, compute.TraitTPMHost, compute.TraitTPMDeployment,
}

// setupRebuild is a cloud whose host can do everything.
func setupRebuild(t *testing.T, change ...func(*api.Config)) *cloud {
	c := setupCloud(t, change...)
	c.exec(`UPDATE hosts SET traits = $1`, allTraits)
	return c
}

// imageOf adds an image with properties to the image store.
func (c *cloud) imageOf(properties map[string]string) string {
	return c.addImage(func(img *compute.Image) { img.Properties = properties })
}

func (c *cloud) rebuild(t *testing.T, as who, id, image, more, version string) answer {
	t.Helper()
	return c.act(t, as, id, fmt.Sprintf(`{"rebuild": {"imageRef": %q%s}}`, image, more), at(version))
}

func TestRebuild(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	id, image := c.active(), c.imageOf(nil)
	for _, v := range []struct {
		version, more string
		keys          []string // beside those of an update
	}{
		{"2.1", `, "name": "anew", "metadata": {"a": "b"}, "accessIPv4": "1.2.3.4", "OS-DCF:diskConfig": "AUTO", "preserve_ephemeral": true`, []string{"adminPass"}},
		{"2.53", `, "description": "d"`, []string{"adminPass"}},
		{"2.54", `, "description": null, "key_name": null`, []string{"adminPass", "key_name"}},
		{"2.57", `, "user_data": "eA=="`, []string{"adminPass", "key_name", "user_data"}},
		{"2.63", `, "user_data": null, "trusted_image_certificates": null`, []string{"adminPass", "key_name", "user_data"}},
		{"2.90", `, "hostname": "other"`, []string{"adminPass", "user_data"}}, // key_name is in a show
		{"2.94", `, "hostname": "other.example"`, []string{"adminPass", "user_data"}},
	} {
		t.Run(v.version, func(t *testing.T) {
			c.settle(id, compute.VMActive, compute.TaskNone)
			like := c.do(t, member, "PUT", "/servers/"+id, `{"server": {}}`, at(v.version)).ok(200).keys("server")
			got := c.rebuild(t, member, id, image, v.more, v.version).ok(202)
			require.ElementsMatch(t, append(like, v.keys...), got.keys("server"))
			require.Equal(t, "REBUILD", got.get("server", "status"))
			require.Equal(t, image, got.get("server", "image", "id"))
			require.NotEmpty(t, got.get("server", "adminPass"))
			require.Contains(t, got.header.Get("Location"), "/servers/"+id)
			ops := c.starter.ops()
			op := ops[len(ops)-1]
			require.Equal(t, compute.OpRebuild, op.Kind)
			var asked compute.RebuildRequest
			require.NoError(t, json.Unmarshal(op.Arguments, &asked))
			require.Equal(t, image, asked.Image.ID.String())
			row := c.row(id)
			require.Equal(t, compute.TaskRebuilding, row.TaskState)
			require.Equal(t, op.ID, row.CurrentOperation)
			require.NotEqual(t, image, row.ImageID.String(), "the row changes when the rebuild is decided")
			switch v.version {
			case "2.1":
				require.Equal(t, "anew", got.get("server", "name"))
				require.Equal(t, map[string]any{"a": "b"}, got.get("server", "metadata"))
				require.Equal(t, "1.2.3.4", got.get("server", "accessIPv4"))
				require.True(t, asked.PreserveEphemeral)
				require.Equal(t, "anew", *asked.Change.Name)
				require.False(t, asked.Change.KeyName.Set)
			case "2.54":
				require.True(t, asked.Change.Description.Set)
				require.Nil(t, asked.Change.Description.Text)
				require.True(t, asked.Change.KeyName.Set)
			case "2.57":
				require.Equal(t, "eA==", got.get("server", "user_data"))
				require.Equal(t, "eA==", *asked.Change.UserData.Text)
			case "2.90":
				require.Equal(t, "other", got.get("server", "OS-EXT-SRV-ATTR:hostname"))
				require.Nil(t, asked.Change.Metadata, "nothing was said of it")
			}
		})
	}
	given := c.rebuild(t, member, c.active(), image, `, "adminPass": "mine"`, "2.1").ok(202)
	require.Equal(t, "mine", given.get("server", "adminPass"))
	require.Zero(t, c.count(`SELECT count(*) FROM operations WHERE arguments::text LIKE '%mine%'`), "a password is shown once and not kept")
}

func TestRebuildRefuses(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	id, image := c.active(), c.imageOf(nil)
	huge := c.addImage(func(img *compute.Image) { img.VirtualBytes = 1 << 40 })
	raw := c.addImage(func(img *compute.Image) { img.DiskFormat = "vmdk" })
	for name, v := range map[string]struct {
		version, image, more string
		code                 int
		message              string
	}{
		"no image":          {"2.1", uuid.NewString(), "", 400, "Can not find requested image"},
		"no uuid":           {"2.1", "x", "", 400, "imageRef"},
		"too large":         {"2.1", huge, "", 400, "Flavor's disk is too small"},
		"no format":         {"2.1", raw, "", 400, "cannot be booted"},
		"a key too early":   {"2.53", image, `, "key_name": "k"`, 400, "Additional properties"},
		"no such key":       {"2.54", image, `, "key_name": "k"`, 400, "Invalid key_name"},
		"data too early":    {"2.56", image, `, "user_data": "eA=="`, 400, "Additional properties"},
		"no base64":         {"2.57", image, `, "user_data": "a"`, 400, "user_data"},
		"files":             {"2.1", image, `, "personality": [{"path": "/x", "contents": "eA=="}]`, 400, "personality is not supported"},
		"files, late":       {"2.57", image, `, "personality": []`, 400, "Additional properties"},
		"certificates":      {"2.63", image, `, "trusted_image_certificates": ["c"]`, 400, "not supported"},
		"a dotted name":     {"2.90", image, `, "hostname": "a.b"`, 400, "hostname"},
		"flavor":            {"2.90", image, `, "flavorRef": "1"`, 400, "Additional properties"},
		"asks for too much": {"2.1", c.imageOf(map[string]string{"hw_mem_encryption": "true"}), "", 400, "cannot have here: hw_mem_encryption=true"},
		"K15: large record": {"2.1", c.imageOf(map[string]string{"large": strings.Repeat("x", 65<<10)}), "", 400, "65 KiB of properties and tags; a server keeps 64 KiB at most"},
		"no such TPM":       {"2.90", c.imageOf(map[string]string{"hw_tpm_version": "3"}), "", 400, "Invalid TPM version"},
		"no such host":      {"2.90", c.imageOf(map[string]string{"trait:CUSTOM_GOLD": "required"}), "", 409, "lacks trait CUSTOM_GOLD"},
		"a format too new":  {"2.90", c.imageOf(map[string]string{"hw_ephemeral_encryption": "true", "hw_ephemeral_encryption_format": "luksv2"}), "", 409, "lacks trait COMPUTE_EPHEMERAL_ENCRYPTION_LUKSV2"},
		"otherwise, a part": {"2.90", c.imageOf(map[string]string{"hw_ephemeral_encryption": "true"}), `, "preserve_ephemeral": true`, 409, "cannot be preserved"},
	} {
		got := c.rebuild(t, member, id, v.image, v.more, v.version)
		require.Equal(t, v.code, got.code, "%s: %s", name, got.body)
		require.Contains(t, got.body, v.message, name)
	}
	c.act(t, member, id, `{"rebuild": {}}`).ok(400)
	c.rebuild(t, reader, id, image, "", "2.1").ok(403)
	c.rebuild(t, stranger, id, image, "", "2.1").ok(404)
	c.settle(id, compute.VMPaused, compute.TaskNone)
	c.rebuild(t, member, id, image, "", "2.1").fails(409, "conflictingRequest", "Cannot 'rebuild' instance "+id+" while it is in vm_state paused")
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.act(t, member, id, `{"lock": null}`).ok(202)
	c.rebuild(t, member, id, image, "", "2.1").fails(409, "conflictingRequest", "Instance "+id+" is locked")
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
	require.Zero(t, c.count(`SELECT count(*) FROM operations WHERE kind = 'rebuild'`))
}

// EE-34: to an image with other encryption options, the owner and nobody else.
func TestRebuildToOtherEncryption(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	plain, luks := c.imageOf(nil), c.imageOf(map[string]string{"hw_ephemeral_encryption": "true"})
	again := c.imageOf(map[string]string{"hw_ephemeral_encryption": "true"})
	elsewhere := func(id string) {
		c.exec(`UPDATE servers SET project_id = $2 WHERE id = $1`, id, "0000000000000000000000000000000a")
	}
	for name, v := range map[string]struct {
		from, to string
		as       who
		change   func(id string)
		message  string // "": allowed
	}{
		"the owner encrypts":                   {plain, luks, member, nil, ""},
		"the owner decrypts":                   {luks, plain, member, nil, ""},
		"a colleague encrypts":                 {plain, luks, creator, nil, "only by the user who owns it"},
		"a colleague decrypts":                 {luks, plain, creator, nil, "only by the user who owns it"},
		"a colleague leaves it":                {luks, again, creator, nil, ""},
		"an administrator encrypts":            {plain, luks, admin, nil, "only by the user who owns it"},
		"an administrator decrypts":            {luks, plain, admin, nil, "only by the user who owns it"},
		"an administrator leaves it plain":     {plain, plain, admin, elsewhere, ""},
		"an administrator of another project":  {luks, again, admin, elsewhere, "only a token of that project can make new ones"},
		"an administrator of another project ": {luks, plain, admin, elsewhere, "only by the user who owns it"},
	} {
		t.Run(name, func(t *testing.T) {
			id := c.createAs(member, map[string]any{"imageRef": v.from})
			c.settle(id, compute.VMActive, compute.TaskNone)
			if v.change != nil {
				v.change(id)
			}
			got := c.rebuild(t, v.as, id, v.to, "", "2.90")
			if v.message == "" {
				got.ok(202)
				return
			}
			require.Equal(t, 403, got.code, got.body)
			require.Contains(t, got.body, v.message)
			require.Equal(t, compute.TaskNone, c.row(id).TaskState)
		})
	}
}

// EE-42, EE-48: disks that Nova's configuration had encrypted, and neither flavor nor image, are not written in clear text unasked.
func TestEE48RebuildOfALegacyServerStaysEncrypted(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	silent, luks, never := c.imageOf(nil), c.imageOf(map[string]string{"hw_ephemeral_encryption": "true"}), c.imageOf(map[string]string{"hw_ephemeral_encryption": "false"})
	server := func() string {
		id := c.createAs(member, map[string]any{"imageRef": silent})
		c.settle(id, compute.VMStopped, compute.TaskNone)
		return id
	}
	moved := func(id string) {
		c.exec(`UPDATE server_disks SET encrypted = true, encryption_format = 'plain', encryption_secret_uuid = $2 WHERE server_id = $1`, id, uuid.New())
	}
	waiting := func(id string) { c.exec(`UPDATE servers SET ephemeral_key_uuid = $2 WHERE id = $1`, id, uuid.New()) }
	for name, is := range map[string]func(id string){"its disks have the key": moved, "it has the key": waiting} {
		t.Run(name, func(t *testing.T) {
			id := server()
			is(id)
			c.rebuild(t, member, id, silent, "", "2.90").fails(409, "conflictingRequest", "The disks of server "+id+" are encrypted, which neither its flavor nor its "+
				"image asks for, and image "+silent+" does not either: rebuilt to it they would be in clear text. "+
				"Set hw_ephemeral_encryption of the image to true, or to false if that is what you want.")
			require.Equal(t, compute.TaskNone, c.row(id).TaskState)
			c.rebuild(t, member, id, luks, "", "2.90").ok(202)
			id = server()
			is(id)
			c.rebuild(t, member, id, never, "", "2.90").ok(202)
		})
	}
	c.rebuild(t, member, server(), silent, "", "2.90").ok(202)
}

// TPM-29: a vTPM that would have to change is refused.
func TestRebuildAndTheTPM(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	none, tis, crb := c.imageOf(nil), c.imageOf(map[string]string{"hw_tpm_version": "2.0"}), c.imageOf(map[string]string{"hw_tpm_version": "2.0", "hw_tpm_model": "CRB"})
	old := c.imageOf(map[string]string{"hw_tpm_version": "1.2"})
	for name, v := range map[string]struct {
		from, to string
		code     int
	}{
		"made": {none, crb, 202}, "dropped": {crb, none, 202}, "kept": {crb, crb, 202}, "another model": {crb, tis, 409}, "another version": {tis, old, 409},
	} {
		t.Run(name, func(t *testing.T) {
			id := c.createAs(member, map[string]any{"imageRef": v.from})
			c.settle(id, compute.VMStopped, compute.TaskNone)
			got := c.rebuild(t, member, id, v.to, "", "2.90").ok(v.code)
			if v.code == 409 {
				require.Contains(t, got.body, "a rebuild keeps the vTPM and cannot change it")
			}
		})
	}
}

// EE-10, TPM-08: what keys and a vTPM need is tried before anything changes.
func TestRebuildTriesTheCloudFirst(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	plain, luks, tpm := c.imageOf(nil), c.imageOf(map[string]string{"hw_ephemeral_encryption": "true"}), c.imageOf(map[string]string{"hw_tpm_version": "2.0"})
	id, with := c.active(), c.createAs(member, map[string]any{"imageRef": tpm})
	c.settle(with, compute.VMActive, compute.TaskNone)
	c.keys.answer, c.objects.answer = compute.Errorf(compute.Forbidden, "no"), compute.Errorf(compute.Unavailable, "away")
	c.rebuild(t, member, id, luks, "", "2.90").ok(403)
	c.rebuild(t, member, with, tpm, "", "2.90").ok(202)
	c.rebuild(t, member, id, plain, "", "2.90").ok(202)
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.keys.answer = nil
	c.rebuild(t, member, id, tpm, "", "2.90").ok(503)
}
