package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/schema/schematest"
)

// M8: a repair replaces the secret in the record and on the ledger, once, and touches neither
// a server that an operation has nor a disk that has another secret by now.
func TestM8ARepairedKeyIsOnRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.idle()
	server := compute.ServerID{UUID: owner.ID}
	disk := compute.Disk{Role: compute.RootDisk}
	plan := func(op compute.OperationID) (compute.Thing, compute.StoredSecret) {
		p := compute.DiskSecret(server, op, disk)
		t := compute.Operation{ID: op, ServerID: server, Credential: schematest.Owner}.Thing(compute.ThingKeySecret, compute.PlaceKeyManager, p.Name)
		t.Reference = p.ID.String()
		return t, compute.StoredSecret{ID: p.ID, Name: p.Name}
	}
	old, was := plan(compute.NewOperationID())
	b.present(old)
	b.Exec("UPDATE server_disks SET encryption_secret_uuid = $1 WHERE server_id = $2", was.ID, server)
	_, now := plan(compute.NewOperationID())

	keys, err := ledger.DiskKeys(b.Ctx, b.DB)
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.False(t, keys[0].Busy)
	require.Equal(t, old.Name, keys[0].Thing.Name)
	repair := keys[0].Repair([]compute.StoredSecret{now})
	require.NotNil(t, repair)

	b.Exec("UPDATE servers SET current_operation = 'req-1' WHERE id = $1", server)
	before := b.Dump(schematest.Everything...)
	err = ledger.RepairKey(b.Ctx, b.DB, *repair, time.Now().Add(time.Hour))
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	require.Equal(t, before, b.Dump(schematest.Everything...))
	keys, err = ledger.DiskKeys(b.Ctx, b.DB)
	require.NoError(t, err)
	require.True(t, keys[0].Busy)
	b.Exec("UPDATE servers SET current_operation = '' WHERE id = $1", server)

	require.NoError(t, ledger.RepairKey(b.Ctx, b.DB, *repair, time.Now().Add(time.Hour)))
	keys, err = ledger.DiskKeys(b.Ctx, b.DB)
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.Equal(t, now.ID, *keys[0].Disk.Secret)
	require.Equal(t, now.Name, keys[0].Thing.Name)
	require.Equal(t, now.ID.String(), keys[0].Thing.Reference)
	require.Nil(t, keys[0].Repair([]compute.StoredSecret{now}))
	things, err := b.Things(b.Ctx, owner)
	require.NoError(t, err)
	require.Equal(t, []string{now.Name}, names(things))

	before = b.Dump(schematest.Everything...)
	err = ledger.RepairKey(b.Ctx, b.DB, *repair, time.Now().Add(time.Hour))
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	_, other := plan(compute.NewOperationID())
	repair.Now = &other
	err = ledger.RepairKey(b.Ctx, b.DB, *repair, time.Now().Add(time.Hour))
	require.True(t, compute.Is(err, compute.Conflict), "the disk has another one by now: %v", err)
	require.Equal(t, before, b.Dump(schematest.Everything...))
}

// M8: where the secret of before is still there, and opens the disk no more, it is removed; the
// slots that its rotation was adding are the disk's, and nobody erases them.
func TestM8ARotationThatWasCutOffIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.idle()
	server := compute.ServerID{UUID: owner.ID}
	disk := compute.Disk{Role: compute.RootDisk}
	secret := func(op compute.Operation) (compute.Thing, compute.StoredSecret) {
		p := compute.DiskSecret(server, op.ID, disk)
		t := op.Thing(compute.ThingKeySecret, compute.PlaceKeyManager, p.Name)
		t.Reference = p.ID.String()
		return t, compute.StoredSecret{ID: p.ID, Name: p.Name}
	}
	before := compute.Operation{ID: compute.NewOperationID(), ServerID: server, Credential: schematest.Owner}
	rotation := compute.Operation{ID: compute.NewOperationID(), ServerID: server, Credential: schematest.Owner}
	old, was := secret(before)
	made, now := secret(rotation)
	slots := rotation.Thing(compute.ThingKeySlot, "h", compute.AddedKeySlots(server, "disk", rotation.ID))
	b.present(old)
	b.Exec("UPDATE server_disks SET encryption_secret_uuid = $1 WHERE server_id = $2", was.ID, server)
	b.waits(compute.BlockedByError, slots)
	b.waits(compute.BlockedByThings, made)

	keys, err := ledger.DiskKeys(b.Ctx, b.DB)
	require.NoError(t, err)
	repair := compute.KeyRepair{Server: server, Was: was.ID, Now: &now, WasThere: true, Key: keys[0]}
	require.NoError(t, ledger.RepairKey(b.Ctx, b.DB, repair, time.Now().Add(time.Hour)))
	states := map[string]compute.ThingState{}
	things, err := b.Things(b.Ctx, owner)
	require.NoError(t, err)
	for _, thing := range things {
		states[thing.Name] = thing.State
	}
	require.Equal(t, map[string]compute.ThingState{old.Name: compute.ThingWaiting, made.Name: compute.ThingPresent}, states)
	require.Equal(t, []string{old.Name}, b.due())
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM server_disks WHERE encryption_secret_uuid = $1", now.ID))
}
