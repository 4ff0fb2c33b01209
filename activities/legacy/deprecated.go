package legacy

import (
	"context"

	"strongroom/schema"
	"strongroom/schema/fence"
)

// Deprecation is something that goes away.
type Deprecation struct {
	What    string `json:"what"`
	Until   string `json:"until"` // the first release without it
	Instead string `json:"instead"`
}

// Deprecated is what goes away of the legacy encryption (EE-35). Disks that have it stay as
// they are, and are opened, for as long as they exist (EE-42).
var Deprecated = []Deprecation{
	{"servers.ephemeral_key_uuid, one key for a server", "release 2.0", "strongroom legacy migrate gives the key to the disks"},
	{"new disks of the format plain", "release 2.0", "ask for luks or luksv2: of plain disks no key can be changed, and a wrong one cannot be told"},
}

// Disks counts the disks with the legacy encryption.
func (k Keys) Disks(ctx context.Context) (int64, error) {
	n, err := schema.New(k.Pool).CountLegacyDisks(ctx)
	return n, fence.Unavailable(err)
}
