package integration_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"strongroom/deploy/await"
	"strongroom/worker/pki"
)

// C1: who reaches Temporal without a certificate gets nothing, the host's own certificate
// takes what is the host's alone, and strongroom host revoke ends that, too.
func TestC1ALostHostIsLockedOutOfTemporal(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	_, err := client.DialContext(t.Context(), client.Options{HostPort: c.TemporalAddress()})
	require.Error(t, err, "a user of the machine")

	stolen, _, err := pki.Folder(filepath.Join(c.State, "certificate")).Load()
	require.NoError(t, err)
	thief, err := client.DialContext(t.Context(), client.Options{HostPort: c.TemporalAddress(), ConnectionOptions: client.ConnectionOptions{TLS: stolen.Temporal()}})
	require.NoError(t, err)
	defer thief.Close()
	look := func() error {
		_, err := thief.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "default"})
		return err
	}
	require.NoError(t, look())
	var denied *serviceerror.PermissionDenied
	_, err = thief.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{})
	require.ErrorAs(t, err, &denied)

	c.lockOut(t, c.Host(1))
	defer c.letIn(t, c.Host(1)) // the next test has this cloud
	await.For(t, "who stole the certificate is refused", func() bool { return errors.As(look(), &denied) })
	log, err := os.ReadFile(c.LogFile("temporal"))
	require.NoError(t, err)
	for line := range bytes.Lines(log) {
		if text := string(line); strings.Contains(text, "DescribeNamespace") && strings.Contains(text, "was revoked") {
			return
		}
	}
	t.Error("no line of the log says that a revoked certificate was refused")
}
