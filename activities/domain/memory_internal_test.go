package domain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// K6: a host tells which huge pages it has set aside, for servers that ask for them.
func TestK6AHostTellsOfItsHugePages(t *testing.T) {
	t.Parallel()
	small, large, normal := compute.HugePagesTrait(2<<10), compute.HugePagesTrait(1<<20), compute.HugePagesTrait(0)
	for _, tc := range []struct {
		meminfo string
		pages   map[string]string
		want    []string
	}{
		{"MemTotal: 1 kB\nHugepagesize:       2048 kB\nHugetlb: 0 kB\n", map[string]string{"hugepages-2048kB": "40\n", "hugepages-1048576kB": "0\n"}, []string{normal, small}},
		{"Hugepagesize:       2048 kB\n", map[string]string{"hugepages-2048kB": "0\n", "hugepages-1048576kB": "1\n"}, []string{large}},
		{"Hugepagesize:    1048576 kB\n", map[string]string{"hugepages-2048kB": "1\n", "hugepages-1048576kB": "1\n"}, []string{large, normal, small}},
		{"Hugepagesize:       2048 kB\n", map[string]string{"hugepages-2048kB": "0\n"}, nil},
		{"MemTotal: 1 kB\n", nil, nil}, // a kernel without them
	} {
		root := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte(tc.meminfo), 0o600))
		for name, count := range tc.pages {
			folder := filepath.Join(root, "sys/kernel/mm/hugepages", name)
			require.NoError(t, os.MkdirAll(folder, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "nr_hugepages"), []byte(count), 0o600))
		}
		require.ElementsMatch(t, tc.want, pageTraits(root), tc)
	}
	require.Empty(t, pageTraits(filepath.Join(t.TempDir(), "gone")))
}
