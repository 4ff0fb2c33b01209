package api_test

import (
	"testing"

	"github.com/google/uuid"
)

// EE-06, EE-47: nobody takes a volume for encrypted since the flavor encrypts: that volumes are
// not offered, and that they would be left as they are, is told where one is asked for.
func TestEE47VolumesAreToldApart(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	const apart = "The encryption options of flavors and images are for local disks only and leave volumes untouched: " +
		"those are encrypted as their volume type says."
	id, volume := c.active(), uuid.NewString()
	attach := func(as who, body string) answer {
		return c.do(t, as, "POST", "/servers/"+id+"/os-volume_attachments", body, at("2.90"))
	}
	whole := `{"volumeAttachment": {"volumeId": "` + volume + `", "device": "/dev/vdz"}}`
	attach(member, whole).fails(400, "badRequest", "Volumes are not offered: none can be attached. "+apart)
	attach(member, `{"volumeAttachment": {}}`).ok(400)
	attach(reader, whole).ok(403)
	attach(stranger, whole).ok(404)
	body := c.body(map[string]any{"block_device_mapping_v2": []any{
		map[string]any{"source_type": "volume", "destination_type": "volume", "boot_index": 0, "uuid": volume},
	}})
	c.do(t, member, "POST", "/servers", body, at("2.90")).fails(400, "badRequest",
		"Block Device Mapping is Invalid: volumes are not offered. Boot from an image (imageRef); only local disks can be mapped. "+apart)
}
