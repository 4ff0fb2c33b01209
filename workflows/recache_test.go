package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/durable"
)

// H6: an image that went from the host's cache before a disk lay on it is cached again, in a
// slot for long work; an encrypted one for the same use.
func TestH6AnImageThatWentIsCachedAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"spawn", "spawn of an encrypted image", "rebuild", "rescue"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			gone := compute.Errorf(compute.NotFound, "the image is not in the host's cache")
			b.fault = at(call{name: disk.Create.Name, nth: 1}, fault{before: func() error { return gone }})
			require.NoError(t, b.run(s.kind, in, nil))
			require.Equal(t, 2, b.count(disk.CacheImage.Name))
			var asked []string
			for _, c := range b.names() {
				if c.name == disk.CacheImage.Name {
					asked = append(asked, c.detail)
				}
			}
			require.Equal(t, asked[0], asked[1])
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
		})
	}
}

// H6: one that is never there is not cached for ever.
func TestH6AnImageThatAlwaysGoesEndsTheOperation(t *testing.T) {
	t.Parallel()
	s := subjects["spawn of an encrypted image"]
	b := s.setup(t)
	in := b.accept(s.kind, s.task, s.arguments)
	b.fault = func(c call) fault {
		if c.name == disk.Create.Name {
			return fault{before: func() error { return compute.Errorf(compute.NotFound, "it is gone again") }}
		}
		return fault{}
	}
	err := b.run(s.kind, in, nil)
	require.Equal(t, "it is gone again", durable.FromTemporal(err).Message)
	require.Equal(t, 4, b.count(disk.CacheImage.Name))
	require.Empty(t, b.audit())
}
