package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestCreateRefusesBadInput(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	specs := func(pairs ...string) string {
		id, all := "f"+fmt.Sprint(c.count(`SELECT count(*) FROM flavors`)), map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		c.addFlavor(id, all)
		return id
	}
	image := func(change func(*compute.Image)) string { return c.addImage(change) }
	property := func(key, value string) string {
		return image(func(i *compute.Image) { i.Properties[key] = value })
	}
	nowhere := uuid.NewString()
	secret := uuid.NewString()
	queued := image(func(i *compute.Image) { i.Status = "queued" })
	foreign := image(func(i *compute.Image) { i.Visibility, i.Owner = "private", elsewhere })
	iso := image(func(i *compute.Image) { i.DiskFormat = "iso" })
	large := image(func(i *compute.Image) { i.VirtualBytes = 2 << 30 })
	encrypted := property("os_encrypt_key_id", secret)
	encryptedAs := func(key, value string) string {
		return image(func(i *compute.Image) { i.Properties["os_encrypt_key_id"], i.Properties[key] = secret, value })
	}
	rot13, luksv2, sizeless := encryptedAs("os_encrypt_format", "rot13"), encryptedAs("os_encrypt_format", "luksv2"), encryptedAs("os_decrypt_size", "0")
	container := image(func(i *compute.Image) { i.DiskFormat = "luks" })
	many := map[string]string{}
	for i := range 129 {
		many[fmt.Sprint("key", i)] = "v"
	}
	crb12 := specs("hw:tpm_version", "1.2", "hw:tpm_model", "tpm-crb")
	modelOnly := specs("hw:tpm_model", "tpm-tis")
	maybe := specs("hw:ephemeral_encryption", "maybe")
	open := specs("hw:ephemeral_encryption", "false")
	luks := specs("hw:ephemeral_encryption", "true", "hw:ephemeral_encryption_format", "luks")
	tpm2 := specs("hw:tpm_version", "2.0")
	secureBoot, insecure := specs("os:secure_boot", "required"), specs("os:secure_boot", "disabled")
	required := image(func(i *compute.Image) {
		i.Properties["hw_firmware_type"], i.Properties["os_secure_boot"] = "uefi", "required"
	})

	type more = map[string]any
	for _, bad := range []struct {
		name    string
		body    more
		version string
		code    int
		fault   string
		message string
	}{
		{"unknown image", more{"imageRef": nowhere}, "2.90", 400, "badRequest", "Can not find requested image"},
		{"another project's image", more{"imageRef": foreign}, "2.90", 400, "badRequest", "Can not find requested image"},
		{"no image", more{"imageRef": nil}, "2.90", 400, "badRequest", "Missing imageRef attribute"},
		{"empty image", more{"imageRef": ""}, "2.90", 400, "badRequest", "Missing imageRef attribute"},
		{"malformed image", more{"imageRef": "tiny"}, "2.90", 400, "badRequest",
			"Invalid input for field/attribute imageRef. Value: tiny. 'tiny' is not valid under any of the given schemas"},
		{"image not active", more{"imageRef": queued}, "2.90", 400, "badRequest", "Image " + queued + " is not active."},
		{"image not bootable", more{"imageRef": iso}, "2.90", 400, "badRequest",
			"Image " + iso + " is unacceptable: disk format 'iso' cannot be booted. Allowed: qcow2, raw, luks."},
		{"flavor too small", more{"imageRef": large}, "2.90", 400, "badRequest",
			"Flavor's disk is too small for requested image. Flavor disk is 1073741824 bytes, image is 2147483648 bytes."},
		{"encrypted image of an unknown format", more{"imageRef": rot13}, "2.90", 400, "badRequest",
			"Image tiny has an invalid os_encrypt_format property. Unknown encryption format 'rot13'. Allowed values: plain, luks, luksv2."},
		{"encrypted image that no host reads", more{"imageRef": luksv2}, "2.90", 400, "badRequest",
			"Image " + luksv2 + " is encrypted as luksv2: hosts read images that are encrypted as luks."},
		{"encrypted image of no size", more{"imageRef": sizeless}, "2.90", 400, "badRequest",
			"Image tiny has an invalid os_decrypt_size property: '0' is not the size in bytes of what it holds."},
		{"container without a key", more{"imageRef": container}, "2.90", 400, "badRequest",
			"Image " + container + " is a LUKS container and does not say which secret opens it (os_encrypt_key_id)."},
		{"unknown flavor", more{"flavorRef": "nope"}, "2.90", 400, "badRequest", "Flavor nope could not be found."},
		{"unknown key", more{"key_name": "nope"}, "2.90", 400, "badRequest", "Invalid key_name provided."},
		{"unknown zone", more{"availability_zone": "moon"}, "2.90", 400, "badRequest", "The requested availability zone is not available"},
		{"unknown group", more{"security_groups": []any{more{"name": "web"}}}, "2.90", 400, "badRequest",
			"Unable to find security_group with name or id 'web'"},
		{"CRB with 1.2", more{"flavorRef": crb12}, "2.90", 400, "badRequest", "TPM model CRB is only valid with TPM version 2.0."},
		{"model without version", more{"flavorRef": modelOnly}, "2.90", 400, "badRequest",
			"TPM model tpm-tis is requested without a TPM version. Set hw:tpm_version in the flavor or hw_tpm_version in the image."},
		{"K6: memory that is not encrypted", more{"imageRef": property("hw_mem_encryption", "true")}, "2.90", 400, "badRequest",
			"Image tiny asks for what servers cannot have here: hw_mem_encryption=true."},
		{"K6: pages that the flavor does not leave to it", more{"imageRef": property("hw_mem_page_size", "large")}, "2.90", 400, "badRequest",
			"Page size large forbidden against '<empty>': image tiny may have hw_mem_page_size where hw:mem_page_size of the flavor is large or any."},
		{"K6: another processor", more{"imageRef": property("hw_architecture", "aarch64")}, "2.90", 400, "badRequest",
			"Image tiny asks for what servers cannot have here: hw_architecture=aarch64."},
		{"K15: more properties than a server keeps", more{"imageRef": property("large", strings.Repeat("x", 2700<<10))}, "2.90", 400, "badRequest",
			"Image tiny has 2700 KiB of properties and tags; a server keeps 64 KiB at most."},
		{"unknown firmware", more{"imageRef": property("hw_firmware_type", "efi")}, "2.90", 400, "badRequest",
			"Image tiny has an invalid hw_firmware_type property. Invalid firmware type 'efi'. Allowed values: bios, uefi."},
		{"unknown machine type", more{"imageRef": property("hw_machine_type", "virt")}, "2.90", 400, "badRequest",
			"Image tiny has an invalid hw_machine_type property. Invalid machine type 'virt'. Allowed values: q35, pc, and those of one version, as pc-q35-7.2 and pc-i440fx-7.2."},
		{"Secure Boot of a BIOS", more{"flavorRef": secureBoot}, "2.90", 400, "badRequest",
			"Secure Boot is required, and image tiny does not ask for UEFI: set its property hw_firmware_type to uefi."},
		{"Secure Boot conflict", more{"flavorRef": insecure, "imageRef": required}, "2.90", 400, "badRequest",
			"Flavor flavor-" + insecure + " has os:secure_boot extra spec explicitly set to disabled, conflicting with image tiny " +
				"which has os_secure_boot explicitly set to required."},
		{"encryption is no boolean", more{"flavorRef": maybe}, "2.90", 400, "badRequest",
			"Flavor flavor-" + maybe + " has an invalid hw:ephemeral_encryption extra spec. Unrecognized value 'maybe', acceptable values are: " +
				"'0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"},
		{"encryption conflict", more{"flavorRef": open, "imageRef": property("hw_ephemeral_encryption", "true")}, "2.90", 409, "conflictingRequest",
			"Flavor flavor-" + open + " has hw:ephemeral_encryption extra spec explicitly set to false, conflicting with image tiny " +
				"which has hw_ephemeral_encryption explicitly set to true."},
		{"EE-02: formats differ", more{"flavorRef": luks, "imageRef": property("hw_ephemeral_encryption_format", "luksv2")}, "2.90", 409, "conflictingRequest",
			"Flavor flavor-" + luks + " has hw:ephemeral_encryption_format extra spec explicitly set to luks, conflicting with image tiny " +
				"which has hw_ephemeral_encryption_format explicitly set to luksv2."},
		{"TPM conflict", more{"flavorRef": tpm2, "imageRef": property("hw_tpm_version", "1.2")}, "2.90", 409, "conflictingRequest",
			"Flavor flavor-" + tpm2 + " has hw:tpm_version extra spec explicitly set to 2.0, conflicting with image tiny " +
				"which has hw_tpm_version explicitly set to 1.2."},
		{"encrypted image, encryption off", more{"flavorRef": open, "imageRef": encrypted}, "2.90", 409, "conflictingRequest",
			"Image tiny is encrypted (os_encrypt_key_id), conflicting with ephemeral encryption which is explicitly disabled by flavor flavor-" +
				open + " or by the image."},
		{"no name", more{"name": nil}, "2.90", 400, "badRequest", "Invalid input for field/attribute server. Value: {'flavorRef': '42', 'imageRef': '" +
			c.image + "', 'networks': 'none'}. 'name' is a required property"},
		{"no networks", more{"networks": nil}, "2.37", 400, "badRequest", "Invalid input for field/attribute server. Value: {'flavorRef': '42', 'imageRef': '" +
			c.image + "', 'name': 'one'}. 'networks' is a required property"},
		{"unknown attribute", more{"colour": "red"}, "2.90", 400, "badRequest", ""},
		{"description too early", more{"description": "d", "networks": nil}, "2.18", 400, "badRequest", ""},
		{"tags too early", more{"tags": []string{"a"}}, "2.51", 400, "badRequest", ""},
		{"personality too late", more{"personality": []any{}}, "2.57", 400, "badRequest", ""},
		{"personality", more{"personality": []any{more{"path": "/a", "contents": "aGVsbG8="}}}, "2.40", 400, "badRequest",
			"personality is not supported: files are not injected into servers. Use user_data."},
		{"certificates", more{"trusted_image_certificates": []string{"a"}}, "2.63", 400, "badRequest",
			"trusted_image_certificates are not supported: image signatures are not verified."},
		{"host", more{"host": "node-1"}, "2.74", 403, "forbidden",
			"Policy doesn't allow compute:servers:create:requested_destination to be performed."},
		{"user data that is cut off", more{"user_data": "aGVs bG8"}, "2.90", 400, "badRequest",
			"Invalid input for field/attribute user_data. Value: aGVs bG8. 'aGVs bG8' is not a 'base64'"},
		{"user data", more{"user_data": "not base64"}, "2.90", 400, "badRequest",
			"Invalid input for field/attribute user_data. Value: not base64. 'not base64' is not a 'base64'"},
		{"metadata value", more{"metadata": more{"k": strings.Repeat("x", 256)}}, "2.90", 400, "badRequest",
			"Invalid input for field/attribute k. Value: " + strings.Repeat("x", 256) + ". '" + strings.Repeat("x", 256) + "' is too long"},
		{"metadata items", more{"metadata": many}, "2.90", 403, "forbidden", "Maximum number of metadata items exceeds 128"},
		{"metadata that cannot be stored", more{"metadata": more{"k": "a\x00b"}}, "2.90", 400, "badRequest",
			"The request holds a character that cannot be stored."},
		{"counts", more{"min_count": 3, "max_count": 2}, "2.90", 400, "badRequest", "min_count must be <= max_count"},
		{"count", more{"min_count": 0}, "2.90", 400, "badRequest", "Invalid input for field/attribute min_count. Value: 0. 0 is less than the minimum of 1"},
		{"too many", more{"min_count": 101}, "2.90", 403, "forbidden",
			"Quota exceeded for instances: Requested 101, but at most 100 can be created at once"},
		{"name", more{"name": " one"}, "2.90", 400, "badRequest",
			"An invalid 'name' value was provided. The name must be: printable characters. Can not start or end with whitespace."},
		{"hostname", more{"hostname": "a.b"}, "2.90", 400, "badRequest", ""},
		{"wrong version", nil, "2.999", 406, "computeFault", "Version 2.999 is not supported by the API. Minimum is 2.1 and maximum is 2.97."},
	} {
		t.Run(bad.name, func(t *testing.T) {
			a := c.do(t, member, "POST", "/servers", c.body(bad.body), at(bad.version))
			if bad.message == "" {
				require.Equal(t, bad.code, a.code, a.body)
				require.Contains(t, a.get(bad.fault, "message"), " ")
				return
			}
			a.fails(bad.code, bad.fault, bad.message)
		})
	}
	c.do(t, member, "POST", "/servers", c.body(nil), header("Content-Type", "application/xml")).fails(415, "badMediaType", "Unsupported Content-Type")
	c.do(t, member, "POST", "/servers", "{").fails(400, "badRequest", "Malformed request body")
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"colour": "red", "networks": nil})).
		fails(400, "badRequest", "Invalid input for field/attribute server. Value: {'colour': 'red', 'flavorRef': '42', 'imageRef': '"+c.image+
			"', 'name': 'one'}. Additional properties are not allowed ('colour' was unexpected)")
	c.do(t, reader, "POST", "/servers", c.body(nil), at("2.90")).
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:servers:create to be performed.")
	c.imageStore.down = true
	c.do(t, member, "POST", "/servers", c.body(nil), at("2.90")).fails(503, "serviceUnavailable", "the image store does not answer")

	for _, table := range []string{"servers", "server_disks", "server_system_metadata", "operations", "ledger", "claims"} {
		require.Zero(t, c.count(`SELECT count(*) FROM `+table), table)
	}
	require.Empty(t, c.starter.ops())
}

func TestPrivateFlavor(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.exec(`UPDATE flavors SET is_public = false`)
	c.do(t, member, "POST", "/servers", c.body(nil), at("2.90")).fails(400, "badRequest", "Flavor 42 could not be found.")
	c.exec(`INSERT INTO flavor_access VALUES ('42', $1)`, project)
	c.create(nil)
}
