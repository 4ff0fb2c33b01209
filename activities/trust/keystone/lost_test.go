package keystone_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/activities/openstack"
	"strongroom/activities/trust"
	"strongroom/activities/trust/keystone"
	"strongroom/compute"
)

// lossy is a cloud of which the answers to requests of one method get lost.
type lossy struct {
	keystone.Cloud
	method string
}

func (l lossy) Clients(kind string) openstack.Clients { return lossyClients{l, l.Cloud.Clients(kind)} }

func (l lossy) ByTrust(ctx context.Context, kind, id string) (*gophercloud.ServiceClient, error) {
	client, err := l.Cloud.ByTrust(ctx, kind, id)
	return l.spoil(client), err
}

func (l lossy) spoil(client *gophercloud.ServiceClient) *gophercloud.ServiceClient {
	if client != nil {
		client.HTTPClient.Transport = lossyTransport{client.HTTPClient.Transport, l.method}
	}
	return client
}

type lossyClients struct {
	cloud lossy
	openstack.Clients
}

func (l lossyClients) Client(ctx context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	client, err := l.Clients.Client(ctx, cred)
	return l.cloud.spoil(client), err
}

type lossyTransport struct {
	http.RoundTripper
	method string
}

func (l lossyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == l.method {
		_ = response.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return response, err
}

func TestALostAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := &keystone.Keeper{Cloud: lossy{b.Cloud, http.MethodPost}, Roles: b.Roles}
	id, err := made.Create(t.Context(), trust.CreateInput{Credential: b.owner, Name: "server"})
	require.NoError(t, err, "it was made, and is found")
	require.Equal(t, id, b.create(t, "server"))

	erase := &keystone.Keeper{Cloud: lossy{b.Cloud, http.MethodDelete}, Roles: b.Roles}
	in := trust.DeleteInput{Credential: b.owner, Name: "server", ID: id}
	err = erase.Delete(t.Context(), in)
	require.True(t, err == nil || compute.Is(err, compute.Unavailable), "%v", err)
	require.NoError(t, b.Delete(t.Context(), in))
	require.Empty(t, b.names(t))
}
