package integration_test

import (
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	keylocal "strongroom/activities/key/local"
	"strongroom/compute"
)

// passphrases gives what the key manager holds for the project demo, by the
// secrets' names.
func (c *testCloud) passphrases(t *testing.T) map[string][]byte {
	t.Helper()
	return c.passphrasesOf(t, "-demo")
}

// passphrasesOf is passphrases of a user's project; strongroom dev's own key manager gives
// those of all.
func (c *testCloud) passphrasesOf(t *testing.T, user string) map[string][]byte {
	t.Helper()
	if c.real == nil {
		return c.localPassphrases(t)
	}
	client := c.service(t, user, openstack.NewKeyManagerV1)
	out := map[string][]byte{}
	for _, s := range c.secrets(t, user) {
		value, err := secrets.GetPayload(t.Context(), client, filepath.Base(s.SecretRef), secrets.GetPayloadOpts{PayloadContentType: "text/plain"}).Extract()
		require.NoError(t, err)
		out[s.Name] = value
	}
	return out
}

func (c *testCloud) localPassphrases(t *testing.T) map[string][]byte {
	t.Helper()
	keys, err := keylocal.Open(filepath.Join(c.State, "keys"), filepath.Join(c.State, "master.key"))
	require.NoError(t, err)
	all, err := keys.List(t.Context(), compute.Credential{}, key.ListInput{})
	require.NoError(t, err)
	out := map[string][]byte{}
	for _, item := range all.Items {
		p, err := keys.Passphrase(t.Context(), compute.Credential{ProjectID: item.ProjectID}, item.ID)
		require.NoError(t, err)
		require.NoError(t, p.Use(func(value []byte) error {
			out[item.Name] = append([]byte(nil), value...)
			return nil
		}))
		p.Wipe()
	}
	return out
}
