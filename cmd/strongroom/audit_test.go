package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/workflows"
)

// P21: each project that no credential opens has a line of its own.
func TestP21ClosedProjectsHaveLinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	require.NoError(t, output{Output: "table"}.printTo(&text, nil, auditTable(workflows.AuditResult{Closed: []string{"the key manager's project a", "the image store's project b"}, MoreClosed: 7,
		Gone: []compute.GoneProject{{Project: "c", Things: 2}}})))
	require.Equal(t, []string{
		"0 findings, 0 things on the ledger, looked at:",
		"no credential opens the key manager's project a", "no credential opens the image store's project b", "no credential opens 7 more",
		"project c was deleted, and 2 things of it are on the ledger: see strongroom project forget --help", "",
	}, strings.Split(strings.ReplaceAll(text.String(), " \n", "\n"), "\n"))
}
