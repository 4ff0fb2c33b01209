package integration_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"strongroom/deploy/await"
	"strongroom/worker/pki"
)

// M7: a control worker that is pointed at another namespace of Temporal refuses to start and
// says what to run; a create that is at work is not taken for lost.
func TestM7AControlWorkerOnAnotherNamespaceTouchesNoOperation(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	const other = "another"
	temporal, err := c.DialTemporal(pki.Operator)
	require.NoError(t, err)
	defer temporal.Close()
	_, err = temporal.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: other, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	await.For(t, "there is a namespace "+other, func() bool {
		_, err := temporal.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: other})
		return err == nil
	})

	b := c.beginCreate(t, encryptedTIS)
	wrong := exec.CommandContext(t.Context(), c.binary, "--config", c.ConfigFile(), "control")
	wrong.Env = append(os.Environ(), "STRONGROOM_TEMPORAL__NAMESPACE="+other)
	wrong.Cancel = func() error { return wrong.Process.Signal(os.Interrupt) }
	var said []byte
	ended := make(chan error, 1)
	go func() {
		var err error
		said, err = wrong.CombinedOutput()
		ended <- err
	}()
	await.For(t, "the control worker refuses to start", func() bool { return len(ended) > 0 })
	err = <-ended
	b.held.release()
	require.Equal(t, "ACTIVE", c.settled(t, b.id).Status)
	require.Error(t, err)
	require.Contains(t, string(said), "its operations run in the namespace default")
	require.Contains(t, string(said), "strongroom migrate --adopt-namespace")
}
