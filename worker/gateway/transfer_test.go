package gateway_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema/schematest"
)

// A host learns that another one may read a thing of a server, for as long as an operation is about
// to make it there; of nothing else.
func TestATransferHasATicket(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	from, to, thief := c.enrolled("from"), c.enrolled("to"), c.enrolled("thief")
	op := from.server()
	name := op.ServerID.String() + "/disk"
	add := func(at *host, by compute.OperationID, state compute.ThingState) {
		t.Helper()
		c.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
			VALUES (gen_random_uuid(), 'disk_file', $1::text, $2, '', 'server', $3, $4, $5, 'p', 'u', $6)`,
			at.id.String(), name, op.ServerID, by, schematest.Owner.ID, state)
	}
	add(from, "req-before", compute.ThingPresent)
	ask := func(at, to *host, change func(*compute.Transfer)) compute.Kind {
		tr := compute.Transfer{Server: op.ServerID, Operation: op.ID, Kind: compute.ThingDiskFile, Name: name}
		if change != nil {
			change(&tr)
		}
		return compute.KindOf(at.client.Grants(c.Ctx, tr, to.got.Cert))
	}
	require.Equal(t, compute.Forbidden, ask(from, to, nil), "nothing is about to be made there")
	add(to, op.ID, compute.ThingIntended)
	require.Empty(t, ask(from, to, nil))
	require.Empty(t, ask(from, to, nil), "an attempt that goes on asks again")

	for what, kind := range map[string]compute.Kind{
		"another host reads": ask(from, thief, nil),
		"the host itself":    ask(from, from, nil),
		"of another host":    ask(thief, to, nil),
		"the other way":      ask(to, from, nil),
		"another operation":  ask(from, to, func(tr *compute.Transfer) { tr.Operation = "req-before" }),
		"another file":       ask(from, to, func(tr *compute.Transfer) { tr.Name += ".swap" }),
		"another kind": ask(from, to, func(tr *compute.Transfer) {
			tr.Kind, tr.Name = compute.ThingTPMState, op.ServerID.String()
		}),
		"another server": ask(from, to, func(tr *compute.Transfer) { tr.Server = compute.ServerID{UUID: op.ServerID.UUID}; tr.Server.UUID[0]++ }),
	} {
		require.Equal(t, compute.Forbidden, kind, what)
	}

	c.Exec("UPDATE ledger SET state = 'present' WHERE operation_id = $1", op.ID)
	require.Equal(t, compute.Forbidden, ask(from, to, nil), "it is there")
	c.Exec("UPDATE ledger SET state = 'intended' WHERE operation_id = $1", op.ID)
	c.Exec("UPDATE ledger SET state = 'waiting', blocked_by = 'host', try_at = now() WHERE operation_id = 'req-before'")
	require.Equal(t, compute.Forbidden, ask(from, to, nil), "it is about to go where it was")
	c.Exec("UPDATE ledger SET state = 'present', blocked_by = '' WHERE operation_id = 'req-before'")
	require.Empty(t, ask(from, to, nil))
	c.Exec("UPDATE operations SET state = 'succeeded' WHERE id = $1", op.ID)
	require.Equal(t, compute.Forbidden, ask(from, to, nil), "the operation has ended")
	c.Exec("UPDATE operations SET state = 'running' WHERE id = $1", op.ID)
	require.Empty(t, ask(from, to, nil))
	c.Exec("UPDATE host_certificates SET revoked_at = now() WHERE host_id = $1", to.id)
	require.Equal(t, compute.Forbidden, ask(from, to, nil), "its certificate was revoked")
}

// The copy of a server's image goes to the host that an operation claimed for the server, from one that
// has a disk of it; and no other image does.
func TestTheCopyOfAnImageHasATicket(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	from, to, thief := c.enrolled("from"), c.enrolled("to"), c.enrolled("thief")
	op := from.server()
	img := compute.Image{ID: compute.ImageID{UUID: uuid.New()}, DiskFormat: "qcow2", SHA256: strings.Repeat("ab", 32)}
	name, err := img.CacheName("p")
	require.NoError(t, err)
	c.Exec("UPDATE servers SET image = $2 WHERE id = $1", op.ServerID, img)
	c.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES (gen_random_uuid(), 'disk_file', $1::text, $2::text || '/disk', '', 'server', $2::text::uuid, 'req-before', $3, 'p', 'u', 'present')`,
		from.id.String(), op.ServerID.String(), schematest.Owner.ID)
	ask := func(at, to *host, change func(*compute.Transfer)) compute.Kind {
		tr := compute.Transfer{Server: op.ServerID, Operation: op.ID, Kind: compute.ThingCachedImage, Name: name}
		if change != nil {
			change(&tr)
		}
		return compute.KindOf(at.client.Grants(c.Ctx, tr, to.got.Cert))
	}
	require.Equal(t, compute.Forbidden, ask(from, to, nil), "no host is claimed")
	c.Exec(`INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, $3, 1, 1, 1)`, op.ServerID, to.id, op.ID)
	require.Empty(t, ask(from, to, nil))
	for what, kind := range map[string]compute.Kind{
		"another host reads": ask(from, thief, nil),
		"the host itself":    ask(from, from, nil),
		"of another host":    ask(thief, to, nil),
		"the other way":      ask(to, from, nil),
		"another operation":  ask(from, to, func(tr *compute.Transfer) { tr.Operation = "req-before" }),
		"another image":      ask(from, to, func(tr *compute.Transfer) { tr.Name = uuid.NewString() + tr.Name[36:] }),
		"a disk":             ask(from, to, func(tr *compute.Transfer) { tr.Kind, tr.Name = compute.ThingDiskFile, op.ServerID.String()+"/disk" }),
		"another server":     ask(from, to, func(tr *compute.Transfer) { tr.Server.UUID[0]++ }),
	} {
		require.Equal(t, compute.Forbidden, kind, what)
	}
	c.Exec("UPDATE operations SET state = 'succeeded' WHERE id = $1", op.ID)
	require.Equal(t, compute.Forbidden, ask(from, to, nil), "the operation has ended")
	c.Exec("UPDATE operations SET state = 'running' WHERE id = $1", op.ID)
	c.Exec("UPDATE host_certificates SET revoked_at = now() WHERE host_id = $1", to.id)
	require.Equal(t, compute.Forbidden, ask(from, to, nil), "its certificate was revoked")
}
