package api_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

// H3: no image makes a disk of any size: of a flavor without a root disk, by a create
// and a rebuild, and to rescue a server.
func TestH3ImagesMakeNoDisksOfAnySize(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, func(config *api.Config) { config.MaxImageDiskGB = 10 })
	c.addFlavor("zero", nil)
	c.exec(`UPDATE flavors SET root_gb = 0 WHERE id = 'zero'`)
	fits := c.addImage(func(img *compute.Image) { img.VirtualBytes = 10 << 30 })
	huge := c.addImage(func(img *compute.Image) { img.VirtualBytes = 1 << 62 })
	needs := c.addImage(func(img *compute.Image) { img.MinDiskGB = 11 })

	id := c.create(map[string]any{"flavorRef": "zero", "imageRef": fits})
	c.settle(id, compute.VMActive, compute.TaskNone)
	small := "Flavor's disk is too small for requested image. Flavor disk is 10737418240 bytes, image is 4611686018427387904 bytes."
	for _, v := range []struct{ image, message string }{
		{huge, small},
		{needs, "Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is 10737418240 bytes, minimum size is 11811160064 bytes."},
	} {
		c.do(t, member, "POST", "/servers", c.body(map[string]any{"flavorRef": "zero", "imageRef": v.image}), at("2.90")).fails(400, "badRequest", v.message)
		c.act(t, member, id, `{"rebuild": {"imageRef": "`+v.image+`"}}`).fails(400, "badRequest", v.message)
		c.act(t, member, id, `{"rescue": {"rescue_image_ref": "`+v.image+`"}}`).fails(400, "badRequest", v.message)
	}
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)

	c.act(t, member, id, `{"rescue": {"rescue_image_ref": "`+fits+`"}}`).ok(200)
	ops := c.starter.ops()
	var in compute.RescueArguments
	require.NoError(t, json.Unmarshal(ops[len(ops)-1].Arguments, &in))
	require.Equal(t, 10, in.MaxDiskGB)
}
