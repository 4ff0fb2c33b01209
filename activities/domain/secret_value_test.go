package domain_test

import (
	"crypto/rand"
	"fmt"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// A secret's value reaches libvirt as it is, whatever its length.
func TestSecretValues(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	var defined libvirt.Secret
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) (err error) {
		defined, err = l.SecretDefineXML(fmt.Sprintf("<secret ephemeral='yes' private='no'><uuid>%s</uuid></secret>", uuid.NewString()), 0)
		return err
	}))
	for _, n := range []int{1, 2, 3, 4, 5, 28, 88, 512, 2048} {
		value := make([]byte, n)
		_, _ = rand.Read(value)
		require.NoError(t, h.Client.SetSecretValue(t.Context(), defined, value))
		require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
			got, err := l.SecretGetValue(defined, 0)
			require.Equal(t, value, got)
			return err
		}))
	}
	err := h.Client.SetSecretValue(t.Context(), defined, make([]byte, 5000))
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
	err = h.Client.SetSecretValue(t.Context(), libvirt.Secret{UUID: libvirt.UUID(uuid.New())}, []byte("x"))
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
}
