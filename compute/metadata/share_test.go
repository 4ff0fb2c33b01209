package metadata_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/compute/metadata"
)

// SH-23: a guest finds its shares among the devices, from the version that has them on.
func TestSH23SharesAreDevices(t *testing.T) {
	t.Parallel()
	share := compute.ShareID{UUID: uuid.MustParse("6dd2d5ce-d469-4235-b10a-25d1e983aefd")}
	s := metadata.Server{Shares: []compute.ShareMapping{{Share: share, Tag: "data"}}}
	for version, shares := range map[string]int{"2020-10-14": 0, "2025-04-04": 1, "latest": 1} {
		got, err := s.Lookup("/openstack/"+version+"/meta_data.json", bytes.NewReader(make([]byte, 512)))
		require.NoError(t, err)
		var document struct{ Devices []map[string]any }
		require.NoError(t, json.Unmarshal(got.Body, &document))
		require.Len(t, document.Devices, shares, version)
		if shares > 0 {
			require.Equal(t, map[string]any{"type": "share", "share_id": share.String(), "tag": "data", "bus": "none", "address": "none"}, document.Devices[0])
		}
	}
}
