package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// M8: the secret of a disk that is gone is replaced by the only other one that was made for
// the same disk, and by no guess.
func TestM8AKeyIsFoundByTheNameOfItsDisk(t *testing.T) {
	t.Parallel()
	server, was := compute.ServerID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}
	disk := compute.Disk{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.RootDisk, Secret: &was}
	owner := compute.Credential{ID: uuid.New(), ProjectID: "p", UserID: "u"}
	key := compute.DiskKey{Server: server, Disk: disk, Thing: compute.Thing{Credential: owner}}
	secret := func(of compute.ServerID, d compute.Disk) compute.StoredSecret {
		p := compute.DiskSecret(of, compute.NewOperationID(), d)
		return compute.StoredSecret{ID: p.ID, Name: p.Name}
	}
	newer := secret(server, disk)
	others := []compute.StoredSecret{
		secret(compute.ServerID{UUID: uuid.New()}, disk), secret(server, compute.Disk{Role: compute.SwapDisk}),
		{ID: compute.SecretID{UUID: uuid.New()}, Name: "somebody's"}, {ID: compute.SecretID{UUID: uuid.New()}, Name: newer.Name + " of mine"},
	}
	with := func(more ...compute.StoredSecret) []compute.StoredSecret { return append(more, others...) }

	require.Nil(t, key.Repair(with(newer, compute.StoredSecret{ID: was, Name: "any"})), "it is there")
	found := key.Repair(with(newer))
	require.Equal(t, &newer, found.Now)
	require.Empty(t, found.Why)
	require.Equal(t, "root", found.Disk)
	thing := found.Thing()
	require.Equal(t, newer.ID.String(), thing.Reference)
	require.Equal(t, owner, thing.Credential)
	require.Equal(t, compute.ServerOwner(server), thing.Owner)

	for why, stored := range map[string][]compute.StoredSecret{
		"no other secret of the disk": others, "2 other secrets of the disk": with(newer, secret(server, disk)),
	} {
		got := key.Repair(stored)
		require.Nil(t, got.Now)
		require.Contains(t, got.Why, why)
	}
	key.Busy = true
	require.Nil(t, key.Repair(with(newer)).Now)
}
