package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

func properties(of map[string]string) func(*compute.Image) {
	return func(img *compute.Image) { img.Properties = of }
}

// TestWhoGetsAConfigDrive: who asks for one, whose image needs one, and everybody
// where the operator says so. The server shows it.
func TestWhoGetsAConfigDrive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked    any
		property map[string]string
		force    bool
		want     string
	}{
		"nobody asks":        {},
		"the request":        {asked: true, want: "True"},
		"not the request":    {asked: false},
		"the image":          {property: map[string]string{"img_config_drive": "mandatory"}, want: "True"},
		"the image, if":      {property: map[string]string{"img_config_drive": "optional"}},
		"image over request": {asked: false, property: map[string]string{"img_config_drive": "mandatory"}, want: "True"},
		"the operator":       {force: true, want: "True"},
		"on SATA":            {asked: true, property: map[string]string{"hw_cdrom_bus": "sata"}, want: "True"},
		"a bus without use":  {property: map[string]string{"hw_cdrom_bus": "ide"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupCloud(t, func(config *api.Config) { config.ForceConfigDrive = c.force })
			body := map[string]any{"imageRef": b.addImage(properties(c.property))}
			if c.asked != nil {
				body["config_drive"] = c.asked
			}
			id := b.create(body)
			require.Equal(t, c.want, b.do(t, member, "GET", "/servers/"+id, "", at("2.90")).ok(200).get("server", "config_drive"))
		})
	}
	b := setupCloud(t)
	a := b.do(t, member, "POST", "/servers", b.body(map[string]any{
		"config_drive": true, "imageRef": b.addImage(properties(map[string]string{"hw_cdrom_bus": "ide"})),
	}), at("2.90")).ok(400)
	require.Contains(t, a.get("badRequest", "message"), "'ide' is not offered, 'scsi' and 'sata' are.")
}
