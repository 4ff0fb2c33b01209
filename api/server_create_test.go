package api_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

func TestCreateServer(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.addFlavor("secret", map[string]string{
		"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "luks", "hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb",
	})
	a := c.do(t, member, "POST", "/servers", c.body(map[string]any{
		"flavorRef": "secret", "metadata": map[string]string{"a": "b"}, "description": "mine", "tags": []string{"x", "x", "y"},
		"user_data": "aGVs bG8=\n", "config_drive": true, "availability_zone": "nova", "name": "My Server_1",
	}), at("2.90")).ok(202)

	id := a.get("server", "id").(string)
	self := "http://cloud.example:8774/v2.1/servers/" + id
	require.Equal(t, self, a.header.Get("Location"))
	require.ElementsMatch(t, []string{"id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"}, a.keys("server"))
	require.Equal(t, self, a.get("server", "links", 0, "href"))
	require.Len(t, a.get("server", "adminPass"), 12)

	ops := c.starter.ops()
	require.Len(t, ops, 1)
	require.Equal(t, a.header.Get("x-compute-request-id"), string(ops[0].ID))
	require.Equal(t, compute.OpCreate, ops[0].Kind)
	require.Equal(t, compute.Credential{ID: ops[0].Credential.ID, ProjectID: project, UserID: "user-member"}, ops[0].Credential)
	require.NotEqual(t, uuid.Nil, ops[0].Credential.ID)

	q := schema.New(c.pool)
	row, err := q.GetServer(t.Context(), compute.ServerID{UUID: uuid.MustParse(id)})
	require.NoError(t, err)
	require.Equal(t, compute.VMBuilding, row.VMState)
	require.Equal(t, compute.TaskScheduling, row.TaskState)
	require.Equal(t, ops[0].ID, row.CurrentOperation)
	require.Equal(t, "my-server-1", row.Hostname)
	require.Equal(t, []string{"x", "y"}, row.Tags)
	require.Equal(t, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Security: compute.SecurityUser}, row.TPM)
	require.Contains(t, row.RequiredTraits, compute.TraitEncryptionLUKS)
	require.Contains(t, row.RequiredTraits, compute.TraitTPM20)
	require.True(t, row.ConfigDrive)
	disks, err := q.GetServerDisks(t.Context(), row.ID)
	require.NoError(t, err)
	require.Len(t, disks, 3)
	for _, d := range disks {
		require.True(t, d.Encrypted)
		require.Equal(t, compute.FormatLUKS, d.EncryptionFormat)
		require.Nil(t, d.EncryptionSecret)
	}
	op, err := q.GetOperation(t.Context(), ops[0].ID)
	require.NoError(t, err)
	require.Equal(t, compute.OperationAccepted, op.State)
	require.Equal(t, ops[0].Credential.ID, op.CredentialID)
	system, err := q.GetServerSystemMetadata(t.Context(), row.ID)
	require.NoError(t, err)
	require.Equal(t, []schema.GetServerSystemMetadataRow{{Key: compute.SystemPinnedZone, Value: "nova"}}, system)
}

func TestCreateSeveral(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	a := c.do(t, member, "POST", "/servers", c.body(map[string]any{
		"min_count": 2, "max_count": "3", "return_reservation_id": true, "hostname": "node.example",
	}), at("2.94")).ok(202)
	require.Equal(t, []string{"reservation_id"}, a.keys())
	require.Empty(t, a.header.Get("Location"))

	list := c.do(t, admin, "GET", "/servers/detail?sort_key=launch_index&sort_dir=asc&reservation_id="+a.get("reservation_id").(string), "", at("2.90")).ok(200)
	require.Len(t, list.get("servers"), 3)
	operations := map[compute.OperationID]bool{}
	for i, op := range c.starter.ops() {
		operations[op.ID] = true
		name := []string{"one-1", "one-2", "one-3"}[i]
		require.Equal(t, name, list.get("servers", i, "name"))
		require.Equal(t, strings.Replace(name, "one", "node", 1)+".example", list.get("servers", i, "OS-EXT-SRV-ATTR:hostname"))
		require.Equal(t, op.ServerID.String(), list.get("servers", i, "id"))
		trail := c.do(t, member, "GET", "/servers/"+op.ServerID.String()+"/os-instance-actions", "").ok(200)
		require.Equal(t, string(op.ID), trail.get("instanceActions", 0, "request_id"))
	}
	require.Len(t, operations, 3)
	require.True(t, operations[compute.OperationID(a.header.Get("x-compute-request-id"))], "the first server has the request's id")
}

// A server's name is no domain: what stands in none becomes a hyphen in its hostname, as in Nova, or is left out.
func TestHostnameOfAName(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for name, host := range map[string]string{"ubuntu-22.04": "ubuntu-22-04", "a..b": "a--b", "My_Web 1.": "my-web-1"} {
		id := c.create(map[string]any{"name": name})
		require.Equal(t, host, c.do(t, admin, "GET", "/servers/"+id, "", at("2.90")).ok(200).get("server", "OS-EXT-SRV-ATTR:hostname"), name)
	}
}

func TestCreateKeepsItsWordWhenTemporalIsAway(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.starter.answer = func(int) error { return compute.Errorf(compute.Unavailable, "no Temporal") }
	id := c.create(nil)
	require.Empty(t, c.starter.ops())
	require.Equal(t, 1, c.count(`SELECT count(*) FROM operations WHERE server_id = $1 AND state = 'accepted'`, id), "the sweeper finds it")
	require.Contains(t, c.log.String(), "no Temporal")

	c.starter.answer = func(call int) error {
		if call < 5 {
			return compute.Errorf(compute.Conflict, "ending")
		}
		return nil
	}
	c.create(nil)
	require.Len(t, c.starter.ops(), 1, "the end of the operation before is waited for")
}

func TestCreateDevices(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	root := map[string]any{"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": c.image, "tag": "system"}
	blank := func(more map[string]any) map[string]any {
		d := map[string]any{"source_type": "blank", "destination_type": "local", "boot_index": -1}
		for key, value := range more {
			d[key] = value
		}
		return d
	}
	id := c.create(map[string]any{"block_device_mapping_v2": []any{
		root, blank(map[string]any{"volume_size": 1, "guest_format": "xfs"}), blank(map[string]any{"volume_size": "1"}),
		blank(map[string]any{"guest_format": "swap", "volume_size": 64}),
	}})
	disks, err := schema.New(c.pool).GetServerDisks(t.Context(), compute.ServerID{UUID: uuid.MustParse(id)})
	require.NoError(t, err)
	got := []string{}
	ids := map[compute.DiskID]bool{}
	for _, d := range disks {
		got = append(got, d.DeviceName+" "+string(d.Role)+" "+d.GuestFormat)
		ids[d.ID] = true
	}
	require.Equal(t, []string{"/dev/vda root ", "/dev/vdb ephemeral xfs", "/dev/vdc ephemeral ext4", "/dev/vdd swap swap"}, got)
	require.Len(t, ids, 4)
	require.Equal(t, int64(64), disks[3].SizeMB)
	require.Equal(t, "system", *disks[0].Tag)

	volumes := "Block Device Mapping is Invalid: volumes are not offered. Boot from an image (imageRef); only local disks can be mapped. " +
		"The encryption options of flavors and images are for local disks only and leave volumes untouched: those are encrypted as their volume type says."
	large := "Ephemeral disks requested are larger than the instance type allows. " +
		"If no size is given in one block device mapping, flavor ephemeral size will be used."
	for name, bad := range map[string]struct {
		device  map[string]any
		message string
	}{
		"volume":          {map[string]any{"source_type": "volume", "destination_type": "volume", "boot_index": 0, "uuid": uuid.NewString()}, volumes},
		"image to volume": {map[string]any{"source_type": "image", "destination_type": "volume", "boot_index": 0, "uuid": c.image, "volume_size": 1}, volumes},
		"swap too large":  {blank(map[string]any{"guest_format": "swap", "volume_size": 257}), "Swap drive requested is larger than instance type allows."},
		"too large":       {blank(map[string]any{"volume_size": 3}), large},
		"other image": {map[string]any{"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": uuid.NewString()},
			"Block Device Mapping is Invalid: a local disk from an image must be the boot disk, with imageRef as its image."},
		"no source": {map[string]any{"boot_index": 1}, "Block Device Mapping is Invalid: source_type is missing."},
	} {
		t.Run(name, func(t *testing.T) {
			body := c.body(map[string]any{"block_device_mapping_v2": []any{bad.device}})
			c.do(t, member, "POST", "/servers", body, at("2.90")).fails(400, "badRequest", bad.message)
		})
	}
	require.Equal(t, 1, c.count(`SELECT count(*) FROM servers`))
}

func TestCreateNetworks(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	networks := func(id string) []compute.Network {
		row, err := schema.New(c.pool).GetServer(t.Context(), compute.ServerID{UUID: uuid.MustParse(id)})
		require.NoError(t, err)
		return row.Networks
	}
	require.Empty(t, networks(c.create(map[string]any{"networks": "auto"})), "there is none to take")

	first, second := uuid.NewString(), uuid.NewString()
	c.exec(`UPDATE hosts SET networks = ARRAY[$1]`, first)
	require.Equal(t, first, networks(c.create(map[string]any{"networks": "auto"}))[0].UUID)
	require.Empty(t, networks(c.create(nil)))
	got := networks(c.create(map[string]any{"networks": []any{
		map[string]any{"uuid": strings.ToUpper(first), "tag": "lan"}, map[string]any{"uuid": first},
	}}))
	require.Equal(t, []string{first, first}, []string{got[0].UUID, got[1].UUID})
	require.Equal(t, "lan", got[0].Tag)
	require.Regexp(t, `^[0-9a-f]2(:[0-9a-f]{2}){5}$`, got[0].MAC)
	require.NotEqual(t, got[0].MAC, got[1].MAC)

	c.exec(`UPDATE hosts SET networks = ARRAY[$1, $2]`, first, second)
	for name, bad := range map[string]struct {
		networks any
		code     int
		fault    string
		message  string
	}{
		"several": {"auto", 409, "conflictingRequest", "Multiple possible networks found, use a Network ID to be more specific."},
		"unknown": {[]any{map[string]any{"uuid": project[:8] + "-0000-4000-8000-000000000000"}}, 400, "badRequest",
			"Network 0a1b2c3d-0000-4000-8000-000000000000 could not be found."},
		"port": {[]any{map[string]any{"port": first}}, 400, "badRequest", "Port id " + first + " could not be found."},
		"fixed": {[]any{map[string]any{"uuid": first, "fixed_ip": "10.0.0.1"}}, 400, "badRequest",
			"fixed_ip is not supported: a network gives its servers their addresses."},
	} {
		t.Run(name, func(t *testing.T) {
			c.do(t, member, "POST", "/servers", c.body(map[string]any{"networks": bad.networks}), at("2.90")).fails(bad.code, bad.fault, bad.message)
		})
	}
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"networks": nil})).
		fails(409, "conflictingRequest", "Multiple possible networks found, use a Network ID to be more specific.")
}

func TestPasswordIsNowhereKept(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	const canary = "canary-of-a-password"
	a := c.do(t, member, "POST", "/servers", c.body(map[string]any{"adminPass": canary}), at("2.90")).ok(202)
	require.Equal(t, canary, a.get("server", "adminPass"))
	given := c.do(t, member, "POST", "/servers", c.body(nil), at("2.90")).ok(202).get("server", "adminPass").(string)
	for _, password := range []string{canary, given} {
		for _, table := range []string{"servers", "server_disks", "server_system_metadata", "operations"} {
			require.Zero(t, c.count(`SELECT count(*) FROM `+table+` x WHERE x::text LIKE '%' || $1 || '%'`, password), table)
		}
		require.NotContains(t, c.log.String(), password)
	}
}
