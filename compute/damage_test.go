package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// damaged is a server on a host with a disk that is encrypted, as the database has it.
type damaged struct {
	host   compute.HostID
	server compute.Server
	made   compute.OperationID
	key    compute.StoredSecret
}

func newDamaged() damaged {
	d := damaged{host: compute.HostID{UUID: uuid.New()}, made: compute.NewOperationID()}
	d.server = compute.Server{
		ID: compute.ServerID{UUID: uuid.New()}, Name: "vault", ProjectID: "p", UserID: "u", Host: &d.host,
		Disks: []compute.Disk{{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.RootDisk, Encrypted: true, Format: compute.FormatLUKS}},
	}
	d.key = d.secret(d.made)
	d.server.Disks[0].Secret = &d.key.ID
	return d
}

func (d damaged) secret(op compute.OperationID) compute.StoredSecret {
	p := compute.DiskSecret(d.server.ID, op, d.server.Disks[0])
	return compute.StoredSecret{ID: p.ID, Name: p.Name}
}

func (d damaged) thing(kind compute.ThingKind, place, name, reference string) compute.Thing {
	t := compute.Operation{ID: d.made, ServerID: d.server.ID}.Thing(kind, place, name)
	t.Reference, t.State = reference, compute.ThingPresent
	return t
}

// has is what the ledger has of the server.
func (d damaged) has() []compute.Thing {
	host, id := d.host.String(), d.server.ID.String()
	return []compute.Thing{
		d.thing(compute.ThingDomain, host, d.server.InstanceName(), ""), d.thing(compute.ThingDiskFile, host, id+"/disk", ""),
		d.thing(compute.ThingKeySecret, compute.PlaceKeyManager, d.key.Name, d.key.ID.String()),
	}
}

func (d damaged) known(has ...compute.Thing) compute.KnownServer {
	return compute.KnownServer{Server: d.server, Made: d.made, Has: has}
}

// find says what is done about findings of one verdict.
func (d damaged) find(s compute.KnownServer, what compute.Verdict, of ...compute.Thing) []compute.Damage {
	in := compute.RepairInput{Known: map[compute.ServerID]compute.KnownServer{d.server.ID: s}}
	return d.findIn(in, what, of...)
}

func (d damaged) findIn(in compute.RepairInput, what compute.Verdict, of ...compute.Thing) []compute.Damage {
	for _, t := range of {
		f := compute.LedgerEntry{Thing: t}.Finding(what)
		if what == compute.Unowned {
			f.Owner = ""
		}
		in.Findings = append(in.Findings, f)
	}
	return compute.FindDamage(in)
}

// M8: a server is taken for deleted when nothing of it is left, its secrets among it: a host
// that lost its disks deletes none.
func TestM8AServerIsGoneWithAllThatItHad(t *testing.T) {
	t.Parallel()
	d := newDamaged()
	has := d.has()
	got := d.find(d.known(has...), compute.Missing, has...)
	require.Len(t, got, 1)
	require.Equal(t, compute.DeleteServer, got[0].Remedy)
	require.Equal(t, d.server.ID, got[0].Server)

	busy := d.known(has...)
	busy.Busy = true
	got = d.find(busy, compute.Missing, has...)
	require.Empty(t, got[0].Remedy)
	require.Contains(t, got[0].Why, "an operation is at work")

	for _, left := range has { // one of them is there
		var missing []compute.Thing
		for _, t := range has {
			if t.ID != left.ID {
				missing = append(missing, t)
			}
		}
		for _, damage := range d.find(d.known(has...), compute.Missing, missing...) {
			require.Empty(t, damage.Remedy, "%s is left, and the rest is what the server is made of: %+v", left.Kind, damage)
			require.NotEmpty(t, damage.Why)
		}
	}
}

// M8: rows of what the server does not use any more are released, and of what it uses they
// are not.
func TestM8RowsOfWhatIsNotUsedAreReleased(t *testing.T) {
	t.Parallel()
	d := newDamaged()
	rescue := d.thing(compute.ThingDiskFile, d.host.String(), d.server.ID.String()+"/disk.rescue", "")
	got := d.find(d.known(append(d.has(), rescue)...), compute.Missing, rescue)
	require.Len(t, got, 1)
	require.Equal(t, compute.ReleaseRow, got[0].Remedy)
	require.Equal(t, []compute.Thing{rescue}, got[0].Things)

	lost := d.has()[2]
	in := compute.RepairInput{
		Known: map[compute.ServerID]compute.KnownServer{d.server.ID: d.known(d.has()...)},
		Keys:  []compute.KeyRepair{{Server: d.server.ID, Was: d.key.ID, Why: "the key manager has 2 other secrets of the disk"}},
	}
	got = d.findIn(in, compute.Missing, lost)
	require.Empty(t, got[0].Remedy)
	require.Contains(t, got[0].Why, "2 other secrets of the disk: the server was rebuilt since")
}

// M8: what exists of a server on record is written down again, with the operation that its
// name tells, whoever made it, and its secret's project. What exists of another server
// stays until that is named, and a secret of which nobody knows the project stays then, too.
func TestM8ThingsWithoutARow(t *testing.T) {
	t.Parallel()
	d := newDamaged()
	secrets := map[string]compute.OwnedSecret{d.key.Name: {StoredSecret: d.key, Project: "p"}}
	in := compute.RepairInput{Known: map[compute.ServerID]compute.KnownServer{d.server.ID: d.known()}, Secrets: secrets}
	for _, damage := range d.findIn(in, compute.Unowned, d.has()...) {
		require.Equal(t, compute.RestoreRow, damage.Remedy)
		restored := damage.Things[0]
		require.Equal(t, d.made, restored.Operation)
		require.Equal(t, compute.ServerOwner(d.server.ID), restored.Owner)
		require.Equal(t, "p", restored.Credential.ProjectID)
		require.Equal(t, "u", restored.Credential.UserID)
		if restored.Kind == compute.ThingKeySecret {
			require.Equal(t, d.key.ID.String(), restored.Reference)
		}
	}

	in.Known = nil
	got := d.findIn(in, compute.Unowned, d.has()...)
	require.Len(t, got, 1)
	require.Equal(t, compute.UnknownServer, got[0].What)
	require.Empty(t, got[0].Remedy)
	require.Contains(t, got[0].Why, "--remove-unknown")
	require.Equal(t, "1 domain, 1 disk_file, 1 key_secret", got[0].Name)
	in.Remove = []compute.ServerID{{UUID: uuid.New()}}
	require.Empty(t, d.findIn(in, compute.Unowned, d.has()...)[0].Remedy, "another one was named")
	in.Remove = append(in.Remove, d.server.ID)
	got = d.findIn(in, compute.Unowned, d.has()...)
	require.Equal(t, compute.RemoveUnknown, got[0].Remedy)
	require.Len(t, got[0].Things, 3)
	in.Secrets = nil
	got = d.findIn(in, compute.Unowned, d.has()...)
	require.Len(t, got[0].Things, 2)
	require.Contains(t, got[0].Why, "1 of its secrets")

	copied := d.thing(compute.ThingTPMState, d.host.String(), compute.KeptTPM(d.server.ID, "req-resize"), "")
	in.Known = map[compute.ServerID]compute.KnownServer{d.server.ID: d.known()}
	got = d.findIn(in, compute.Unowned, copied)
	require.Len(t, got, 1)
	require.Equal(t, compute.RestoreRow, got[0].Remedy)
	require.Contains(t, got[0].Why, "it goes when the server is deleted")
	require.Equal(t, compute.ServerOwner(d.server.ID), got[0].Things[0].Owner)

	foreign := compute.Thing{Kind: compute.ThingImage, Place: compute.PlaceImageStore, Name: uuid.NewString()}
	got = d.findIn(compute.RepairInput{}, compute.Unowned, foreign)
	require.Empty(t, got[0].Remedy)
}

// M8: a rotation that was under way at the backup and was cut off is undone where the secret
// before it is there, by the slots that it added; what another rotation replaced is released.
func TestM8ARotationThatWasUnderWayIsSettled(t *testing.T) {
	t.Parallel()
	d := newDamaged()
	rotation := compute.NewOperationID()
	made := d.secret(rotation)
	op := compute.Operation{ID: rotation, ServerID: d.server.ID}
	row := op.Thing(compute.ThingKeySecret, compute.PlaceKeyManager, made.Name)
	row.Reference = made.ID.String()
	slots := op.Thing(compute.ThingKeySlot, d.host.String(), compute.AddedKeySlots(d.server.ID, "disk", rotation))
	slots.Reference = "0"
	in := compute.RepairInput{
		Known:   map[compute.ServerID]compute.KnownServer{d.server.ID: d.known(append(d.has(), row, slots)...)},
		Secrets: map[string]compute.OwnedSecret{made.Name: {StoredSecret: made, Project: "p"}},
	}
	got := d.findIn(in, compute.Unsure, row)
	require.Len(t, got, 1)
	require.Equal(t, compute.UndoRotation, got[0].Remedy)
	require.Equal(t, []compute.Thing{slots, row}, got[0].Things)

	found := compute.KeyRepair{Server: d.server.ID, Was: d.key.ID, Now: &made}
	in.Keys = []compute.KeyRepair{found}
	require.Empty(t, d.findIn(in, compute.Unsure, row), "the secret before it is gone: the key's repair settles it")

	in.Keys, in.Secrets = nil, nil
	require.Equal(t, compute.ReleaseRow, d.findIn(in, compute.Unsure, row)[0].Remedy)

	// The undo was refused: the rotation had erased the slots of before.
	in.Secrets = map[string]compute.OwnedSecret{made.Name: {StoredSecret: made, Project: "p"}, d.key.Name: {StoredSecret: d.key, Project: "p"}}
	refused := slots.Waits(compute.BlockedByError, "disk "+d.server.ID.String()+": luks: "+compute.LastSlotStays)
	got = d.findIn(in, compute.Failing, refused)
	require.Len(t, got, 1)
	require.Equal(t, compute.NameKey, got[0].Remedy)
	require.Equal(t, made, *got[0].Key.Now)
	require.Equal(t, d.key.ID, got[0].Key.Was)
	require.True(t, got[0].Key.WasThere, "and is removed")
	require.Empty(t, d.findIn(in, compute.Failing, slots.Waits(compute.BlockedByError, "libvirt is away")))

	in.Secrets = nil
	in.Known[d.server.ID] = d.known(append(d.has(), row)...)
	in.Secrets = map[string]compute.OwnedSecret{made.Name: {StoredSecret: made, Project: "p"}}
	require.Empty(t, d.findIn(in, compute.Unsure, row)[0].Remedy, "nobody knows which slots it added")
}

// The server that a thing is of is told by its name, where that says it in full.
func TestNamesTellServers(t *testing.T) {
	t.Parallel()
	id := compute.ServerID{UUID: uuid.New()}
	op := compute.NewOperationID()
	for _, f := range []compute.Finding{
		{Kind: compute.ThingDomain, Name: compute.InstanceName(id)}, {Kind: compute.ThingDiskFile, Name: id.String() + "/disk"},
		{Kind: compute.ThingTPMState, Name: id.String()}, {Kind: compute.ThingTPMState, Name: compute.KeptTPM(id, op)}, {Kind: compute.ThingKeySecret, Name: compute.TPMSecret(id, op).Name},
		{Kind: compute.ThingTrust, Name: compute.TrustName(id, op)}, {Kind: compute.ThingCachedImage, Name: "p/i.qcow2/" + id.String() + ".disk"},
	} {
		got, ok := f.Server()
		require.True(t, ok, "%+v", f)
		require.Equal(t, id, got)
	}
	for _, f := range []compute.Finding{
		{Kind: compute.ThingImage, Name: id.String()}, {Kind: compute.ThingHypervisorSecret, Name: id.String()}, {Kind: compute.ThingDiskFile, Name: "x/disk"},
		{Kind: compute.ThingKeySecret, Name: "mine " + id.String()}, {Kind: compute.ThingTPMState, Name: "{" + id.String() + "}"},
	} {
		_, ok := f.Server()
		require.False(t, ok, "%+v", f)
	}
}
