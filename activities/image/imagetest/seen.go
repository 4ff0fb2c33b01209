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
func seenActivity(b bench) {
	server := compute.ServerID{UUID: uuid.New()}
	half, whole := b.backup(server, "daily", "True", false), b.backup(server, "daily", "True", true)
	own := b.create("raw", image.Private) // half made too, and of no server
	asked := b.create("raw", image.Private)
	require.NoError(b, b.Library.Upload(b.ctx, b.Owner, asked.ID, bytes.NewReader([]byte("data"))))
	in := compute.SeenInput{Known: []string{"no id", asked.ID.String()}}
	for range 60 { // more than are asked for at once
		in.Known = append(in.Known, uuid.NewString())
	}
	in.Known = append(in.Known, half.String())
	a := image.Activities{Library: b.Library}
	of := func(cred compute.Credential) map[string]bool {
		in.Projects = []compute.Access{{Project: cred.ProjectID, Credentials: []compute.Credential{cred}}}
		got, err := a.Seen(b.ctx, in)
		require.NoError(b, err)
		require.Equal(b, []string{cred.ProjectID}, got.Looked)
		require.Empty(b, got.Closed)
		require.Empty(b, got.Next)
		names := map[string]bool{}
		for _, s := range got.Seen {
			require.Equal(b, compute.ThingImage, s.Kind)
			names[s.Name] = true
		}
		require.False(b, names[whole.String()])
		require.False(b, names[own.ID.String()])
		return names
	}
	mine := of(b.Owner)
	require.True(b, mine[half.String()])
	require.True(b, mine[asked.ID.String()])
	theirs := of(b.Other)
	require.False(b, theirs[half.String()])
	require.False(b, theirs[asked.ID.String()])

	in.Known = nil
	require.True(b, of(b.Owner)[half.String()])
	in.Page = "nonsense"
	_, err := a.Seen(b.ctx, in)
	b.requireKind(compute.Invalid, err)
}
