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
