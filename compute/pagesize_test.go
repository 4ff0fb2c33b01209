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

// K6: pages that an image or a flavor asks for are had, or refused as Nova refuses them.
func TestK6PagesAreHadOrRefused(t *testing.T) {
	t.Parallel()
	const sizes = ": it is small, large, any, 4KiB, 2MiB or 1GiB."
	forbidden := func(image, flavor string) string {
		return "Page size " + image + " forbidden against '" + flavor + "': image odd may have hw_mem_page_size where hw:mem_page_size of the flavor is large or any."
	}
	for _, tc := range []struct{ flavor, image, says, trait string }{
		{"", "", "", ""}, {"small", "", "", ""}, {"any", "", "", ""}, {"4", "", "", ""}, {"any", "small", "", ""}, {"large", "4KiB", "", ""}, {"large", "any", "", ""},
		{"large", "", "", "CUSTOM_STRONGROOM_HUGE_PAGES"}, {"any", "large", "", "CUSTOM_STRONGROOM_HUGE_PAGES"},
		{"2MiB", "", "", "CUSTOM_STRONGROOM_HUGE_PAGES_2048"}, {"large", "2MB", "", "CUSTOM_STRONGROOM_HUGE_PAGES_2048"},
		{"any", "1GB", "", "CUSTOM_STRONGROOM_HUGE_PAGES_1048576"},
		{"", "large", forbidden("large", "<empty>"), ""}, {"", "small", forbidden("small", "<empty>"), ""}, {"small", "large", forbidden("large", "small"), ""},
		{"2MB", "2MB", forbidden("2MB", "2MB"), ""}, {"huge", "large", forbidden("large", "huge"), ""},
		{"huge", "", "Invalid memory page size 'huge'" + sizes, ""}, {"64KiB", "", "Invalid memory page size '64KiB'" + sizes, ""}, {"any", "0", "Invalid memory page size '0'" + sizes, ""},
		{"99999999999999999999", "", "Invalid memory page size '99999999999999999999'" + sizes, ""}, {"18014398509481988K", "", "Invalid memory page size '18014398509481988K'" + sizes, ""},
	} {
		flavor := compute.Flavor{Name: "f", MemoryMB: 1024, ExtraSpecs: map[string]string{"hw:mem_page_size": tc.flavor}}
		image := asking(map[string]string{"hw_mem_page_size": tc.image})
		err := compute.CheckHardware(flavor, image)
		if tc.says != "" {
			require.EqualError(t, err, tc.says)
			require.Equal(t, compute.Invalid, compute.KindOf(err))
			continue
		}
		require.NoError(t, err, "%+v", tc)
		s := compute.Server{Flavor: flavor, Image: image}
		_, huge := s.OnHugePages()
		require.Equal(t, tc.trait != "", huge, "%+v", tc)
		if huge {
			require.Equal(t, []string{tc.trait}, compute.RequestOf(s).Traits.Required, "%+v", tc)
		} else {
			require.Empty(t, compute.RequestOf(s).Traits.Required, "%+v", tc)
		}
	}
	flavor := compute.Flavor{Name: "f", MemoryMB: 513, ExtraSpecs: map[string]string{"hw:mem_page_size": "2MiB"}}
	require.EqualError(t, compute.CheckHardware(flavor, asking(nil)), "Flavor f has 513 MB of memory, which fill no pages of 2MiB.")
	flavor.ExtraSpecs["hw:mem_page_size"] = "large"
	require.EqualError(t, compute.CheckHardware(flavor, asking(nil)), "Flavor f has 513 MB of memory, which fill no pages of large.")

	s := compute.Server{Flavor: flavor, Image: compute.Image{Devices: true, Properties: map[string]string{"hw_mem_page_size": "2MB"}}} // that an earlier release made
	require.NoError(t, compute.CheckHardware(s.Flavor, s.Image))
	require.Empty(t, compute.RequestOf(s).Traits.Required)
	_, huge := s.OnHugePages()
	require.False(t, huge, "as it was")
	s.Flavor.ExtraSpecs = nil
	s.Image.Properties = nil
	to := compute.Flavor{ID: "to", Name: "to", MemoryMB: 512, ExtraSpecs: map[string]string{"hw:mem_page_size": "large"}}
	err := s.CheckResize(to)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "Rebuild it first.")
	s.Image.Pages = true
	require.NoError(t, s.CheckResize(to), "one of this release gets them")
	s.Image.Pages, s.Flavor = false, flavor
	s.Shares = []compute.ShareMapping{{}}
	_, huge = s.OnHugePages()
	require.True(t, huge, "as it was")
}
