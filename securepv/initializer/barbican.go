package initializer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
)

// Barbican is a Source: a secret of OpenStack's key manager, read with an application credential, as
// Keystone makes one that may read that secret and nothing else.
type Barbican struct {
	Secret string // its id
	Clouds string // a clouds.yaml, as a mounted Kubernetes Secret has it
	Cloud  string // which of them
}

var _ Source = Barbican{}

// Fetch implements Source.
func (b Barbican) Fetch(ctx context.Context) (*Secrets, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithLocations(b.Clouds), clouds.WithCloudName(b.Cloud))
	switch {
	case err != nil:
		return nil, final{fmt.Errorf("--clouds: %w", err)}
	case auth.ApplicationCredentialID == "" && auth.ApplicationCredentialName == "":
		return nil, final{fmt.Errorf("--clouds: the cloud %q of %s has no application credential: a pod is to have no user's password", b.Cloud, b.Clouds)}
	}
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return nil, answered(err, "log in to the key manager")
	}
	client, err := openstack.NewKeyManagerV1(provider, endpoint)
	if err != nil {
		return nil, answered(err, "find the key manager")
	}
	value, err := b.payload(ctx, client, "text/plain")
	if gophercloud.ResponseCodeIs(err, http.StatusNotAcceptable) { // a symmetric key, which is bytes
		value, err = b.payload(ctx, client, "application/octet-stream")
	}
	defer clear(value)
	if err != nil {
		return nil, answered(err, "read secret "+b.Secret)
	}
	seed, err := seedOf(value)
	if err != nil {
		return nil, final{fmt.Errorf("secret %s: %w", b.Secret, err)}
	}
	return &Secrets{Seed: seed}, nil
}

// payload reads into one buffer, so that no copy of it stays behind.
func (b Barbican) payload(ctx context.Context, client *gophercloud.ServiceClient, kind string) ([]byte, error) {
	got := secrets.GetPayload(ctx, client, b.Secret, secrets.GetPayloadOpts{PayloadContentType: kind})
	if got.Err != nil {
		return nil, got.Err
	}
	defer got.Body.Close()
	value := make([]byte, mostSecret+1)
	n, err := io.ReadFull(got.Body, value)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return value[:n], err
}

// answered makes one line of what a service answered, without its body, and tells what is to be
// asked again: what another minute may mend.
func answered(err error, what string) error {
	var e gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", what, err)
	}
	short := fmt.Errorf("%s: %d %s", what, e.Actual, http.StatusText(e.Actual))
	switch e.Actual {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest:
		return final{short}
	}
	return short
}
