package api_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/api/microversion"
)

// deviceAttribute is an attribute of a block device that a create may name.
type deviceAttribute struct {
	says    string // what docs/api.md says of it
	of      string // the device that the value is of: root or blank
	value   any    // one that is as good as any
	ignored bool   // it changes no disk
	refused string // why it is a 400, whatever its value is
}

const (
	noVolumesHere = "volumes are not offered"
	toRoot        = "root"
	toBlank       = "blank"
)

// deviceAttributes are those of an item of block_device_mapping_v2.
var deviceAttributes = map[string]deviceAttribute{
	"source_type":      {of: toRoot, value: "image", says: "`image`: the boot disk, also where it is left out and an image is named; `blank`: an ephemeral or a swap disk. `volume` and `snapshot` are a 400"},
	"destination_type": {of: toRoot, value: "local", says: "`local`, also where it is left out. `volume` is a 400"},
	"uuid":             {of: toRoot, value: "IMAGE", says: "the image of the boot disk. Another one than `imageRef` is a 400"},
	"image_id":         {of: toRoot, value: "IMAGE", says: "the same, where there is no `uuid`"},
	"boot_index":       {of: toRoot, value: 0, says: "`0` says which is the boot disk: the one from an image, which must say so. A blank one that says so is a 400"},
	"volume_size": {of: toBlank, value: 1, says: "of an ephemeral disk GiB, of a swap disk MiB: from 1 to what the flavor has left, all of that where it is left out; more is a 400. " +
		"Of the boot disk it is not looked at: that is as large as the flavor says"},
	"guest_format":          {of: toBlank, value: "swap", says: "`swap` makes a swap disk; any other text is what the guest is meant to make on an ephemeral disk, `ext4` where it is left out"},
	"disk_bus":              {of: toRoot, value: "virtio", says: "the bus of the server's image (`hw_disk_bus`, else `virtio`). Another one is a 400"},
	"tag":                   {of: toRoot, value: "system", says: "kept with the disk, and told to the guest by its [metadata](metadata.md)"},
	"device_name":           {of: toRoot, value: "vdz", ignored: true, says: "not looked at: disks have their names by their order"},
	"device_type":           {of: toRoot, value: "disk", ignored: true, says: "`disk`, also where it is left out; another one is a 400"},
	"delete_on_termination": {of: toRoot, value: false, ignored: true, says: "not looked at: local disks go with their server"},
	"volume_type":           {of: toRoot, value: "fast", refused: "a local disk has no volume_type", says: "400: it would be a volume's; empty and null are taken"},
	"no_device":             {of: toBlank, value: true, refused: "no_device: the images of servers have no block devices here", says: "true is a 400: no image has block devices that could be left out; false is taken"},
	"virtual_name":          {of: toBlank, value: "ephemeral0", ignored: true, says: "not looked at"},
	"connection_info":       {of: toRoot, value: "{}", ignored: true, says: "not looked at"},
	"volume_id":             {of: toRoot, value: goodShare, refused: noVolumesHere, says: "400: there are no volumes"},
	"snapshot_id":           {of: toRoot, value: goodShare, refused: noVolumesHere, says: "400: there are no snapshots"},
}

// encryptionAttributes are those of the encryption document (EE-07). Flavor and image decide on them, and no request.
var encryptionAttributes = []string{"encrypted", "encryption_secret_uuid", "backing_encryption_secret_uuid", "encryption_format", "encryption_options"}

// diskAttributes are what GET /servers/{id}/disks says of a disk.
var diskAttributes = map[string]string{
	"id":                             "the disk's id",
	"role":                           "`root`, `ephemeral`, `swap` or, while the server is rescued, `rescue`",
	"device_name":                    "as `/dev/vda`; empty of one that the server does not have while it is rescued",
	"bus":                            "`virtio`, `scsi` or `sata`",
	"size_mb":                        "MiB; 0 of a boot disk that is as large as its image",
	"boot_index":                     "`0` of the boot disk, `-1` of all others",
	"guest_format":                   "what the guest is meant to make on it, as `ext4` or `swap`; null of one with an image",
	"image_id":                       "the image that it was made of; null of all others",
	"tag":                            "the tag that its owner gave it, or null",
	"encrypted":                      "whether it is encrypted at rest",
	"encryption_format":              "`luks`, `luksv2` or `plain`; null where it is not encrypted, and until a host has decided on it ([encryption.md](encryption.md#formats))",
	"encryption_secret_uuid":         "the id of its passphrase in the key manager; null where it has none, or not yet",
	"backing_encryption_secret_uuid": "the id of the passphrase of the encrypted image under it, a copy of the image's own; null where there is none",
	"encryption_options":             "texts that say what was really used, read back from the disk: cipher, mode and IV generator, with LUKS its hash and iterations, too; empty until it is made",
}

// deviceVersions are the attributes that a list of devices of POST /servers may have, and in which versions.
func deviceVersions(t *testing.T, list string) map[string]string {
	t.Helper()
	versions := map[string][]microversion.Version{}
	for _, resource := range api.AllResources() {
		for _, r := range resource.Routes {
			if routeName(r) != "POST /servers" {
				continue
			}
			for v := microversion.Min; v <= microversion.Max; v++ {
				for name := range inside(t, r.Body.Document(v), "properties", "server", "properties", list, "items", "properties") {
					versions[name] = append(versions[name], v)
				}
			}
		}
	}
	require.NotEmpty(t, versions)
	spoken := map[string]string{}
	for name, all := range versions {
		spoken[name] = spans(all)
	}
	return spoken
}

// inside gives an object of a document.
func inside(t *testing.T, document any, path ...string) map[string]any {
	t.Helper()
	for _, key := range path {
		object, ok := document.(map[string]any)
		require.True(t, ok, "%s of %v", key, document)
		document = object[key]
	}
	object, ok := document.(map[string]any)
	require.True(t, ok, "%v is no object", path)
	return object
}

// spans writes down versions, which ascend: "2.32, from 2.42".
func spans(versions []microversion.Version) string {
	var all []string
	for len(versions) > 0 {
		n := 1
		for n < len(versions) && versions[n] == versions[n-1]+1 {
			n++
		}
		switch first, last := versions[0], versions[n-1]; {
		case last == microversion.Max:
			all = append(all, span(first, 0))
		case first == last:
			all = append(all, first.String())
		default:
			all = append(all, span(first, last))
		}
		versions = versions[n:]
	}
	return strings.Join(all, ", ")
}

// shownOfDisks are the attributes that GET /servers/{id}/disks has.
func shownOfDisks(t *testing.T) []string {
	t.Helper()
	shape := plain(serverAnswers["GET /servers/:id/disks"](question{as: member}))
	return slices.Sorted(maps.Keys(inside(t, shape, "properties", "disks", "items", "properties")))
}

// deviceTable is the part of docs/api.md on block devices.
func deviceTable(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	out.WriteString(`
## Block devices

What an item of ` + "`block_device_mapping_v2`" + ` in ` + "`POST /servers`" + ` may say. Only local disks can be mapped: there are [no volumes](encryption.md#volumes).

| attribute | versions | |
|---|---|---|
`)
	versions := deviceVersions(t, "block_device_mapping_v2")
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		require.Contains(t, deviceAttributes, name, "say in deviceAttributes what is done with it")
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", name, versions[name], deviceAttributes[name].says)
	}
	for _, name := range encryptionAttributes {
		require.NotContains(t, versions, name)
		fmt.Fprintf(&out, "| `%s` | | 400: [flavor and image](encryption.md#all-options) say how disks are encrypted; it is shown, below |\n", name)
	}
	older := slices.Sorted(maps.Keys(deviceVersions(t, "block_device_mapping")))
	fmt.Fprintf(&out, `
Any other attribute is a 400, too; below `+"`/v2`"+` it has no effect. An item of the older `+"`block_device_mapping`"+` (%s) is a 400, whatever it says: it would be a volume.

What `+"`GET /servers/{id}/disks`"+` says of each local disk to a client that speaks `+"`strongroom 1.0`"+`:

| attribute | |
|---|---|
`, codes(older...))
	for _, name := range shownOfDisks(t) {
		require.Contains(t, diskAttributes, name, "say in diskAttributes what it tells")
		fmt.Fprintf(&out, "| `%s` | %s |\n", name, diskAttributes[name])
	}
	return out.String()
}

// EE-06, EE-07: each attribute of a block device is taken or refused as docs/api.md has it, and one that has no effect changes no disk; those of
// encryption are no request's, and are shown. The page has all of them.
func TestEE07TheAttributesOfABlockDevice(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, slices.Collect(maps.Keys(deviceVersions(t, "block_device_mapping_v2"))), slices.Collect(maps.Keys(deviceAttributes)))
	require.ElementsMatch(t, shownOfDisks(t), slices.Collect(maps.Keys(diskAttributes)))
	require.Subset(t, shownOfDisks(t), encryptionAttributes)

	c := setupCloud(t)
	device := func(of string) map[string]any {
		if of == toRoot {
			return map[string]any{"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": c.image}
		}
		return map[string]any{"source_type": "blank", "destination_type": "local", "boot_index": -1}
	}
	create := func(list string, d map[string]any) answer {
		return c.do(t, member, "POST", "/servers", c.body(map[string]any{list: []any{d}}), at("2.90"))
	}
	disks := func(made answer) (all []string) {
		id := made.ok(202).get("server", "id").(string)
		for _, d := range c.do(t, member, "GET", "/servers/"+id+"/disks", "", at(extended)).ok(200).get("disks").([]any) {
			shown := d.(map[string]any)
			delete(shown, "id")
			all = append(all, fmt.Sprint(shown))
		}
		return all
	}
	plainly := map[string][]string{toRoot: disks(create("block_device_mapping_v2", device(toRoot))), toBlank: disks(create("block_device_mapping_v2", device(toBlank)))}
	for name, a := range deviceAttributes {
		d := device(a.of)
		if d[name] = a.value; a.value == "IMAGE" {
			d[name] = c.image
		}
		made := create("block_device_mapping_v2", d)
		if a.refused != "" {
			require.Equal(t, 400, made.code, name)
			require.Contains(t, made.body, a.refused, name)
			continue
		}
		require.Equal(t, 202, made.code, "%s: %s", name, made.body)
		if a.ignored {
			require.Equal(t, plainly[a.of], disks(made), name)
		}
	}
	for name, values := range map[string]map[any]int{
		"device_type": {"": 202, "cdrom": 400}, "no_device": {false: 202, "no": 202, "": 202, "True": 400}, "volume_type": {"": 202},
	} {
		for value, code := range values {
			d := device(toBlank)
			d[name] = value
			require.Equal(t, code, create("block_device_mapping_v2", d).code, "%s %v", name, value)
		}
	}
	for _, name := range encryptionAttributes {
		for _, list := range []string{"block_device_mapping_v2", "block_device_mapping"} {
			d := map[string]any{}
			if list == "block_device_mapping_v2" {
				d = device(toRoot)
			}
			d[name] = true
			made := create(list, d)
			require.Equal(t, 400, made.code, name)
			require.Contains(t, made.body, "('"+name+"' was unexpected)")
		}
	}
	older := create("block_device_mapping", map[string]any{"device_name": "vda"})
	require.Equal(t, 400, older.code)
	require.Contains(t, older.body, noVolumesHere)
}
