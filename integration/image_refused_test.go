package integration_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"
)

// EE-18, and how EE-21 wants what a host cannot do to end: an image that cannot be
// made with the key that was asked for fails with a word that says why. The server
// is as it was, and no image is left that looks as if it were being saved.
func TestImageWithAKeyThatCannotBeRead(t *testing.T) {
	backends(t, openStack, local)
	c := sharedCloud(t)
	id := c.createIdle(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	secret := uuid.NewString()
	image := c.postForImage(t, id, "createImage", map[string]any{
		"name": "mine", "encryption": map[string]any{"key": "existing", "secret_uuid": secret},
	})
	c.becomes(t, id, "ACTIVE")
	action := c.newestAction(t, id)
	require.Equal(t, "createImage", action.Action)
	require.Equal(t, "Error", action.Message)
	detail, err := instanceactions.Get(t.Context(), c.compute(t, ""), id, action.RequestID).Extract()
	require.NoError(t, err)
	require.NotEmpty(t, *detail.Events)
	said := c.toldWhy(t, id, "-demo")
	require.Equal(t, "failed", said.State)
	require.Contains(t, said.Message, "read secret "+secret)
	require.Contains(t, said.Message, "the key manager does not have it")
	_, err = images.Get(t.Context(), c.imageService(t, "-demo"), image).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, id)
}
