// Package barbican is a key.Manager in OpenStack's Barbican.
//
// A secret is of the type passphrase, its payload text, and its mode is
// "strongroom": names are anybody's in Barbican, and what a user of the project made
// under one of ours is neither taken for ours nor deleted. Secrets are stored
// directly: an order would leave its own row behind.
package barbican

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	"strongroom/activities/key"
	"strongroom/activities/openstack"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// Mode marks the secrets that strongroom made.
const Mode = "strongroom"

// maxPayload is more than Barbican lets a payload have.
const maxPayload = 64 << 10

// Manager is a key.Manager in Barbican.
type Manager struct {
	Clients openstack.Clients // of the key manager, version 1
}

var _ key.Manager = (*Manager)(nil)

// client gives a client for the owner of secrets. Barbican knows a secret's
// project by the token alone, so one without a project has nothing there.
func (m *Manager) client(ctx context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	if cred.ProjectID == "" {
		return nil, compute.Errorf(compute.Forbidden, "a secret is used with a credential of the project that owns it")
	}
	client, err := m.Clients.Client(ctx, cred)
	return client, openstack.Error(err, "log in to the key manager")
}

// Passphrase implements key.Manager.
func (m *Manager) Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	client, err := m.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("read secret %s", id)
	payload := secrets.GetPayload(ctx, client, id.String(), secrets.GetPayloadOpts{PayloadContentType: "text/plain"})
	if gophercloud.ResponseCodeIs(payload.Err, http.StatusNotAcceptable) {
		return symmetric(ctx, client, id, payload.Err)
	}
	if err := openstack.Error(payload.Err, what); compute.Is(err, compute.NotFound) {
		return nil, key.Missing(id)
	} else if err != nil {
		return nil, refusal(err)
	}
	defer payload.Body.Close()
	value, err := readAll(payload.Body)
	switch {
	case err != nil:
		return nil, openstack.Error(err, what)
	case len(value) == 0 || len(value) > maxPayload:
		clear(value)
		return nil, compute.Errorf(compute.Corrupt, "secret %s holds no passphrase", id)
	}
	return secret.New(value), nil
}

// Name implements key.Manager.
func (m *Manager) Name(ctx context.Context, cred compute.Credential, id compute.SecretID) (string, error) {
	client, err := m.client(ctx, cred)
	if err != nil {
		return "", err
	}
	s, err := secrets.Get(ctx, client, id.String()).Extract()
	if err != nil {
		return "", openstack.Error(err, fmt.Sprintf("look up secret %s", id))
	}
	return s.Name, nil
}

// symmetric reads a symmetric key, which is bytes: the passphrase is these in hex, as Nova
// hands its keys to cryptsetup (EE-48). noText is why it was not read as text, which is the
// error for any other secret.
func symmetric(ctx context.Context, client *gophercloud.ServiceClient, id compute.SecretID, noText error) (*secret.Passphrase, error) {
	what := fmt.Sprintf("read secret %s", id)
	s, err := secrets.Get(ctx, client, id.String()).Extract()
	if err != nil {
		return nil, openstack.Error(err, what)
	}
	if s.SecretType != string(secrets.SymmetricSecret) {
		return nil, openstack.Error(noText, what)
	}
	payload := secrets.GetPayload(ctx, client, id.String(), secrets.GetPayloadOpts{PayloadContentType: "application/octet-stream"})
	if payload.Err != nil {
		return nil, openstack.Error(payload.Err, what)
	}
	defer payload.Body.Close()
	value, err := readAll(payload.Body)
	defer clear(value)
	switch {
	case err != nil:
		return nil, openstack.Error(err, what)
	case len(value) == 0 || len(value) > maxPayload/2:
		return nil, compute.Errorf(compute.Corrupt, "secret %s holds no key", id)
	}
	text := make([]byte, hex.EncodedLen(len(value)))
	hex.Encode(text, value)
	return secret.New(text), nil
}

// Delete implements key.Manager.
func (m *Manager) Delete(ctx context.Context, in key.DeleteInput) error {
	client, err := m.client(ctx, in.Credential)
	if err != nil {
		return err
	}
	if in.ID != nil {
		if err := remove(ctx, client, in.ID.UUID); err != nil {
			return err
		}
	}
	for {
		left, err := named(ctx, client, in.Name)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, s := range left {
			if err := remove(ctx, client, s.id); err != nil {
				return err
			}
		}
	}
}

// remove ensures that there is no secret of the id.
func remove(ctx context.Context, client *gophercloud.ServiceClient, id uuid.UUID) error {
	what := fmt.Sprintf("delete secret %s", id)
	err := openstack.Error(secrets.Delete(ctx, client, id.String()).ExtractErr(), what)
	if !compute.Is(err, compute.Unavailable) {
		return present(err)
	}
	// Two deletes at once make Barbican stumble: the second may have its answer
	// from the world.
	_, look := secrets.Get(ctx, client, id.String()).Extract()
	if compute.Is(openstack.Error(look, what), compute.NotFound) {
		return nil
	}
	return err
}

// present drops the error that says that there is nothing.
func present(err error) error {
	if compute.Is(err, compute.NotFound) {
		return nil
	}
	return err
}
