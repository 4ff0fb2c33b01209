package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// SH-05: which pages a flavor and an image ask for.
func TestSH05HugePages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		flavor, image string
		kib           int
		huge          bool
	}{
		{"", "", 0, false}, {"small", "", 0, false}, {"any", "", 0, false}, {"4", "", 4, false}, {"4KiB", "", 4, false}, {"4096B", "", 4, false},
		{"large", "", 0, true}, {"2048", "", 2048, true}, {"2MiB", "", 2048, true}, {"2MB", "", 2048, true}, {"2M", "", 2048, true},
		{"1GB", "", 1 << 20, true}, {"16Mbit", "", 2048, true}, {"2097152B", "", 2048, true},
		{"", "large", 0, true}, {"any", "2MB", 2048, true}, {"large", "1GiB", 1 << 20, true}, {"small", "large", 0, false}, {"2MB", "1GB", 2048, true},
		{"99999999999999999999", "", 0, false}, {"huge", "", 0, false},
	} {
		s := compute.Server{Flavor: compute.Flavor{ExtraSpecs: map[string]string{"hw:mem_page_size": tc.flavor}}, Image: compute.Image{Properties: map[string]string{"hw_mem_page_size": tc.image}}}
		kib, huge := s.HugePages()
		require.Equal(t, tc.huge, huge, "%+v", tc)
		require.Equal(t, tc.kib, kib, "%+v", tc)
	}
}
