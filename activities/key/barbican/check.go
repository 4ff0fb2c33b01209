package barbican

import (
	"context"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"strongroom/activities/openstack"
	"strongroom/compute"
)

// Check implements key.Manager. It asks for a secret that cannot be made: who may
// not make any is refused before Barbican looks at what was asked for.
func (m *Manager) Check(ctx context.Context, cred compute.Credential) error {
	client, err := m.client(ctx, cred)
	if err != nil {
		return err
	}
	response, err := client.Post(ctx, client.ServiceURL("secrets"), map[string]any{"secret_type": "none"}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusBadRequest}})
	if err == nil {
		err = response.Body.Close()
	}
	return openstack.Error(err, "ask whether secrets may be made")
}
