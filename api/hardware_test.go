package api_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

// K6: a server has the devices of its image and its flavor: they are on record, shown, and what its host must have. What they do not agree on, and what servers cannot
// have, is refused by name.
func TestK6ServersHaveTheDevicesOfTheirImages(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	asks := func(properties map[string]string) map[string]any {
		return map[string]any{"imageRef": c.imageOf(properties)}
	}
	disks := func(id string) string {
		return c.text(`SELECT string_agg(device_name || ' ' || bus, ', ' ORDER BY device_name) FROM server_disks WHERE server_id = $1`, id)
	}
	device := func(id string) any {
		return c.do(t, admin, "GET", "/servers/"+id, "", at("2.3")).ok(200).get("server", "OS-EXT-SRV-ATTR:root_device_name")
	}
	named := func(name string) int {
		return len(c.do(t, admin, "GET", "/servers?all_tenants=1&root_device_name="+name, "", at("2.90")).ok(200).get("servers").([]any))
	}
	plain := c.create(nil)
	require.Equal(t, []any{"/dev/vda virtio, /dev/vdb virtio, /dev/vdc virtio", "/dev/vda"}, []any{disks(plain), device(plain)})
	scsi := c.create(asks(map[string]string{"hw_disk_bus": "scsi", "hw_vif_model": "e1000"}))
	require.Equal(t, []any{"/dev/sda scsi, /dev/sdb scsi, /dev/sdc scsi", "/dev/sda"}, []any{disks(scsi), device(scsi)})
	require.Equal(t, []int{1, 1}, []int{named("/dev/sda"), named("/dev/vda")})
	load := func(id string) compute.Server {
		s, err := schema.LoadServer(t.Context(), schema.New(c.pool), compute.ServerID{UUID: uuid.MustParse(id)})
		require.NoError(t, err)
		return s
	}
	s := load(scsi)
	require.Equal(t, compute.NIC{Model: "e1000"}, s.Hardware().NIC)
	require.Contains(t, compute.RequestOf(s).Traits.Required, compute.TraitHardware)

	c.exec(`UPDATE servers SET image = image - 'devices' WHERE id = $1`, scsi) // an earlier release made it
	require.Equal(t, "/dev/vda", device(scsi))
	require.Equal(t, 2, named("/dev/vda"))
	require.Equal(t, compute.Hardware{}, load(scsi).Hardware())

	on := func(bus string) map[string]any {
		return map[string]any{"block_device_mapping_v2": []any{map[string]any{"uuid": c.image, "source_type": "image", "destination_type": "local", "boot_index": 0, "disk_bus": bus}}}
	}
	c.create(on("virtio"))
	for _, bad := range []struct {
		more map[string]any
		says string
	}{
		{asks(map[string]string{"hw_disk_bus": "ide"}), "Image tiny asks for what servers cannot have here: hw_disk_bus=ide."},
		{asks(map[string]string{"hw_vif_model": "nonsense"}), "Image tiny has an invalid hw_vif_model property. Validation failed; 'nonsense' is not one of: "},
		{asks(map[string]string{"hw_video_ram": "16"}), "The requested amount of video memory 16 is higher than the maximum allowed by flavor 0."},
		{asks(map[string]string{"hw_cpu_max_sockets": "1", "hw_cpu_max_cores": "1", "hw_cpu_max_threads": "1", "hw_cpu_sockets": "2"}), "Image tiny: its property hw_cpu_sockets is 2, and at most 1 are allowed."},
		{on("scsi"), "Block Device Mapping is Invalid: disk_bus 'scsi': the disks of a server are on the bus of its image, virtio here (its property hw_disk_bus)."},
	} {
		require.Contains(t, c.do(t, member, "POST", "/servers", c.body(bad.more), at("2.90")).ok(400).body, fmt.Sprintf("%.80s", bad.says))
	}
}

// K6: a rebuild gives a server the devices of its new image where its host has them; so does a rescue.
func TestK6HostsThatGiveNoDevices(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	id := c.active()
	sata := c.imageOf(map[string]string{"hw_disk_bus": "sata"})
	rescue := `{"rescue":{"rescue_image_ref":"` + c.imageOf(map[string]string{"hw_rescue_bus": "sata"}) + `"}}`
	c.exec(`UPDATE hosts SET traits = array_remove(traits, $1)`, compute.TraitHardware)
	require.Contains(t, c.rebuild(t, member, id, sata, "", "2.90").ok(409).body, compute.TraitHardware)
	require.Contains(t, c.act(t, member, id, rescue, at("2.90")).ok(409).body, "so it has no rescue disk on the bus sata.")
	c.exec(`UPDATE hosts SET traits = array_append(traits, $1)`, compute.TraitHardware)
	c.act(t, member, id, rescue, at("2.90")).ok(200)
	c.exec(`UPDATE servers SET task_state = '', current_operation = '', vm_state = 'active' WHERE id = $1`, uuid.MustParse(id))
	c.rebuild(t, member, id, sata, "", "2.90").ok(202)
}
