package mount_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// SH-18, SH-25: what cannot be mounted is told without where it is; what is there is tried again.
func TestSH18AShareOfNFSThatCannotBeMounted(t *testing.T) {
	t.Parallel()
	for source, kind := range map[string]compute.Kind{
		"127.0.0.77:/secret": compute.Unavailable, // nothing listens there
		"127.0.0.77":         compute.Conflict,
		"127.0.0.77:secret":  compute.Conflict,
		"a,b:/secret":        compute.Conflict,
		"secret.invalid:/x":  compute.Unavailable,
	} {
		h, server := begin(t), newServer()
		h.source = source
		in := h.input(server)
		in.Protocol = compute.NFSShare
		err := h.Mount(t.Context(), in)
		require.Equal(t, kind, compute.KindOf(err), "%s: %v", source, err)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "127.0")
		require.Zero(t, h.mounts())
		require.NoError(t, h.Remove(t.Context(), h.use(server)))
		require.Empty(t, h.seen())
	}
}
