package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// H7: as many servers as fit, between the least and the most that were asked for.
func TestH7QuotaFit(t *testing.T) {
	t.Parallel()
	quota := compute.Quota{Instances: 10, Cores: 20, MemoryMB: 4096, DiskGB: compute.Unlimited}
	each := compute.Use{Instances: 1, Cores: 2, MemoryMB: 512, DiskGB: 1000}
	for name, c := range map[string]struct {
		quota       compute.Quota
		used        compute.Use
		least, most int
		fit         int
		refused     string
	}{
		"nothing is used":        {quota, compute.Use{}, 1, 8, 8, ""},
		"memory for eight":       {quota, compute.Use{}, 1, 100, 8, ""},
		"exactly the rest":       {quota, compute.Use{Instances: 9, Cores: 18, MemoryMB: 3584}, 1, 1, 1, ""},
		"fewer than the least":   {quota, compute.Use{Cores: 18}, 2, 2, 0, "Quota exceeded for cores: Requested 4, but already used 18 of 20 cores"},
		"between least and most": {quota, compute.Use{Cores: 14}, 2, 5, 3, ""},
		"a range": {
			quota, compute.Use{Instances: 9, Cores: 18}, 2, 3, 0,
			"Quota exceeded for cores, instances: Requested 6, 2-3, but already used 18, 9 of 20, 10 cores, instances",
		},
		"all of them": {
			compute.Quota{}, compute.Use{}, 1, 1, 0,
			"Quota exceeded for cores, disk, instances, ram: Requested 2, 1000, 1, 512, but already used 0, 0, 0, 0 of 0, 0, 0, 0 cores, disk, instances, ram",
		},
		"a limit below what is used": {quota, compute.Use{MemoryMB: 5000}, 1, 1, 0, "Quota exceeded for ram: Requested 512, but already used 5000 of 4096 ram"},
		"no limit":                   {compute.NoQuota, compute.Use{Instances: 1 << 40}, 1, 100, 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fit, err := c.quota.Fit(c.used, each, c.least, c.most)
			require.Equal(t, c.fit, fit)
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, compute.Is(err, compute.Forbidden), "%v", err)
			require.EqualError(t, err, c.refused)
		})
	}
}

// H7: what uses more is refused, and what does not is not looked at.
func TestH7QuotaGrow(t *testing.T) {
	t.Parallel()
	quota := compute.Quota{Instances: 1, Cores: 1, MemoryMB: 1, DiskGB: 10}
	used := compute.Use{Instances: 5, Cores: 5, MemoryMB: 5, DiskGB: 8}
	require.NoError(t, quota.Grow(used, compute.Use{}))
	require.NoError(t, quota.Grow(used, compute.Use{DiskGB: 2}))
	require.EqualError(t, quota.Grow(used, compute.Use{DiskGB: 3}), "Quota exceeded for disk: Requested 3, but already used 8 of 10 disk")
}

func TestH7WhatAServerHolds(t *testing.T) {
	t.Parallel()
	f := compute.Flavor{VCPUs: 2, MemoryMB: 512, RootGB: 5, EphemeralGB: 2, SwapMB: 1025}
	img := compute.Image{SizeBytes: 1, VirtualBytes: 3<<30 + 1}
	require.Equal(t, compute.Use{Instances: 1, Cores: 2, MemoryMB: 512, DiskGB: 9}, compute.UseOf(f, img))
	f.RootGB = 0
	require.EqualValues(t, 8, compute.UseOf(f, img).DiskGB, "the image's size, rounded up")
	img.Properties = map[string]string{"os_decrypt_size": "10737418240"}
	require.EqualValues(t, 10, compute.ImageGB(img), "what is inside of it may be larger")
	img.Properties["os_decrypt_size"] = "many"
	require.EqualValues(t, 4, compute.ImageGB(img))
	require.Zero(t, compute.ImageGB(compute.Image{}))
}
