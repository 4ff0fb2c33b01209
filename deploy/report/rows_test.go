package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const named = `package x_test

// EE-01 and TPM-03 … TPM-05: what a test says of itself.
func TestOne(t *testing.T) {
	require.True(t, ok, "EE-08")
}

// helper: EE-20 …
// EE-21 are a file's, and so is SH-01.
func helper() {}

// TPM-29.
func TestTwo(t *testing.T) {}
`

func TestRowsAreTheirTests(t *testing.T) {
	t.Parallel()
	found, err := namedIn("strongroom/x", named)
	require.NoError(t, err)
	one, two := test{"strongroom/x", "TestOne"}, test{"strongroom/x", "TestTwo"}
	require.Equal(t, []naming{
		{[]string{"EE-01", "TPM-03", "TPM-04", "TPM-05", "EE-08"}, []test{one}},
		{[]string{"TPM-29"}, []test{two}},
		{[]string{"EE-20", "EE-21", "SH-01"}, []test{one, two}},
	}, found)

	ended := func(tests map[test]string) []suite { return []suite{{ended: map[test]string{}}, {ended: tests}} }
	all, missing, deep := shown(found, ended(map[test]string{one: "pass", two: "pass"}))
	require.Equal(t, 9, all)
	require.Empty(t, missing)
	require.Empty(t, deep)
	_, missing, deep = shown(found, ended(map[test]string{one: "pass", two: "fail"}))
	require.Equal(t, []string{"TPM-29"}, missing)
	require.Empty(t, deep)
	_, missing, deep = shown(found, ended(map[test]string{two: "pass", one: "skip"}))
	require.Empty(t, missing)
	require.Equal(t, []string{"EE-01", "EE-08", "TPM-03", "TPM-04", "TPM-05"}, deep)
	_, missing, deep = shown(found, nil)
	require.Empty(t, missing)
	require.Len(t, deep, 9)
}

// This repository's own tests name rows, and the end-to-end suites do.
func TestRowsOfThisRepository(t *testing.T) {
	t.Parallel()
	found, err := rowsNamed("../..")
	require.NoError(t, err)
	passed := suite{ended: map[test]string{}}
	for _, n := range found {
		for _, one := range n.tests {
			passed.ended[one] = "pass"
		}
	}
	require.Contains(t, passed.ended, test{"strongroom/integration", "TestRescue"})
	all, missing, deep := shown(found, []suite{passed})
	require.Greater(t, all, 50)
	require.Empty(t, missing)
	require.Empty(t, deep, "named in a file without tests")
}
