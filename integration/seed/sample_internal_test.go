package seed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The same seed leaves out the same ones, and each test is in some sample.
func TestSamplesLeaveOneOfSoManyTests(t *testing.T) {
	t.Parallel()
	names := []string{"TestA", "TestB", "TestC", "TestD", "TestE"}
	seen := map[string]bool{}
	for i := range 50 {
		text := fmt.Sprint(i)
		left := Leave(Dice(text, ""), slices.Clone(names), 4)
		require.Len(t, left, 3)
		require.Equal(t, left, Leave(Dice(text, ""), slices.Clone(names), 4))
		for _, name := range names {
			seen[name] = seen[name] || !slices.Contains(left, name)
		}
	}
	require.Len(t, seen, len(names))
	for _, name := range names {
		require.True(t, seen[name], name)
	}
}

// What shows a finding or a row, by its name or its comment, and what all adapters pass is in every run.
func TestOwnTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(`package a

func TestMain(m *testing.M) {}

// A comment.
func TestOne(t *testing.T) {}

// TPM-20: a
// comment of two lines.
func TestOfARow(t *testing.T) {}

func TestEE48Volumes(t *testing.T) {}
func TestA99Limits(t *testing.T) {}
func TestConformance(t *testing.T) {}
func TestTwo(t *testing.T) {}
func helper(t *testing.T) {}
func BenchmarkIt(b *testing.B) {}
`), 0o600))
	names, err := ownTests(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"TestOne", "TestTwo"}, names)
}
