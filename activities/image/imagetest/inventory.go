package imagetest

import (
	"bytes"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
)

// What the audit sees of a project's images: those of servers that are half made, and
// those that it asks for.
func inventoryActivity(b bench) {
	server := compute.ServerID{UUID: uuid.New()}
	half, whole := b.backup(server, "daily", "True", false), b.backup(server, "daily", "True", true)
	own := b.create("raw", image.Private) // half made too, and of no server
	asked := b.create("raw", image.Private)
	require.NoError(b, b.Library.Upload(b.ctx, b.Owner, asked.ID, bytes.NewReader([]byte("data"))))
	a := image.Activities{Library: b.Library}
	of := func(cred compute.Credential) []compute.ImageID {
		got, err := a.Inventory(b.ctx, image.InventoryInput{
			Projects: []compute.Access{{Project: cred.ProjectID, Credentials: []compute.Credential{cred}}}, Known: []compute.ImageID{asked.ID},
		})
		require.NoError(b, err)
		require.Equal(b, []string{cred.ProjectID}, got.Looks.Projects)
		require.NotContains(b, got.Images, whole)
		require.NotContains(b, got.Images, own.ID)
		return got.Images
	}
	require.Subset(b, of(b.Owner), []compute.ImageID{half, asked.ID})
	require.NotContains(b, of(b.Other), half)
	require.NotContains(b, of(b.Other), asked.ID)
}
