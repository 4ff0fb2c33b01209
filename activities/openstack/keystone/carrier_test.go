package keystone_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"strongroom/activities/key"
	"strongroom/activities/key/barbican"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// Who gives up making a secret, at whatever moment, and deletes it by its name leaves
// none: Barbican does not make one after the delete (EE-05).
func TestWhatIsGivenUpIsNotMadeLater(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, _, known := b.strongroom(t)
	project, _ := b.project(t)
	cred := known.add(project, b.login(t, b.member(t, project), project).Token(), "")
	keys := &barbican.Manager{Clients: cloud.Clients("key-manager")}
	input := func() key.CreateInput {
		return key.CreateInput{
			Credential: cred, ID: compute.SecretID{UUID: uuid.New()}, Name: "test " + uuid.NewString(), Bytes: compute.DiskPassphraseBytes,
		}
	}
	began := time.Now()
	whole := input()
	_, err := keys.Create(t.Context(), whole)
	require.NoError(t, err)
	took := time.Since(began)
	require.NoError(t, keys.Delete(t.Context(), key.DeleteInput{Credential: cred, Name: whole.Name}))

	var work errgroup.Group
	work.SetLimit(4)
	for range 40 {
		work.Go(func() error {
			in := input()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Duration(rand.Int64N(int64(took))), cancel)
			if _, err := keys.Create(ctx, in); err != nil && ctx.Err() == nil {
				return fmt.Errorf("create: %w", err)
			}
			return keys.Delete(t.Context(), key.DeleteInput{Credential: cred, Name: in.Name})
		})
	}
	require.NoError(t, work.Wait())
	for range 10 {
		got, err := keys.List(t.Context(), cred, key.ListInput{})
		require.NoError(t, err)
		require.Empty(t, got.Items)
		time.Sleep(100 * time.Millisecond)
	}
}
