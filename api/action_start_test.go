package api_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// What an answered request began is waited for by an API that is to stop, as long as
// there is time.
func TestWaitForWhatRequestsBegan(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.settle(id, compute.VMStopped, "")
	held := make(chan struct{})
	c.starter.answer = func(int) error {
		<-held
		return nil
	}
	c.act(t, member, id, `{"os-start":null}`).is(202, "")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	c.api.Wait(over)
	close(held)
	c.api.Wait(t.Context())
	require.Len(t, c.starter.ops(), 2)
}

// A request waits for the end of a backup of the server's vTPM, which nobody asked for, and no
// longer than a client waits.
func TestARequestWaitsForABackupOfTheVTPM(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.settle(id, compute.VMActive, compute.TaskBackingUpTPM)
	refused := c.act(t, member, id, `{"os-stop":null}`)
	require.Equal(t, 409, refused.code)
	require.Contains(t, refused.body, "Cannot 'stop' instance "+id+" while it is in task_state backing_up_tpm")
	answer := waiting(t, func() answer { return c.act(t, member, id, `{"os-stop":null}`) })
	c.settle(id, compute.VMActive, compute.TaskNone)
	answer().is(202, "")
}

// A dry run of a move waits as the move would.
func TestADryRunWaitsForABackupOfTheVTPM(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.settle(id, compute.VMActive, compute.TaskBackingUpTPM)
	answer := waiting(t, func() answer { return c.act(t, admin, id, `{"dryRun": {"migrate": null}}`, at("2.1, strongroom 1.0")) })
	c.settle(id, compute.VMActive, compute.TaskNone)
	require.NotContains(t, answer().body, "backing_up_tpm")
}
