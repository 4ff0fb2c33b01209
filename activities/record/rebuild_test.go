package record_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/schema"
)

// EE-07, EE-08, TPM-10: the decision of a rebuild is one transaction, may run twice,
// and takes what the user said from the operation's row.
func TestRebuild(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.server(compute.OpCreate)
	secret, backing, old := compute.SecretID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}
	require.NoError(t, b.saveSecrets(first, record.Secrets{Disks: map[string]compute.SecretID{b.disk(first).String(): old}, TPM: &old}))
	_, err := b.Pool.Exec(b.ctx, `UPDATE servers SET description = 'old', key_name = 'k', user_data = 'eA==', metadata = '{"a": "b"}' WHERE id = $1`, first.Server)
	require.NoError(t, err)
	_, err = b.Pool.Exec(b.ctx, `UPDATE server_disks SET tag = 'boot' WHERE server_id = $1`, first.Server)
	require.NoError(t, err)

	name, data := "anew", "ssh-ed25519 x"
	image := compute.Image{
		ID: compute.ImageID{UUID: uuid.New()}, Name: "i", Devices: true,
		Properties: map[string]string{"hw_ephemeral_encryption": "true", "trait:CUSTOM_A": "forbidden", "hw_disk_bus": "scsi", "hw_vif_model": "e1000"},
	}
	in := b.supersede(first, compute.OpRebuild, compute.RebuildRequest{
		RebuildArguments: compute.RebuildArguments{Image: image, PreserveEphemeral: true},
		Change: compute.ServerChange{
			Name: &name, Description: compute.Setting{Set: true}, KeyName: compute.Setting{Set: true, Text: &name}, KeyData: &data,
		},
	})
	begun, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	asked, err := compute.Rebuild.Read(begun.Arguments)
	require.NoError(t, err)
	require.Equal(t, compute.RebuildArguments{Image: image, PreserveEphemeral: true}, asked)
	require.NotContains(t, string(begun.Arguments), data, "the request's own words are for the record alone")
	will, err := begun.Server.RebuiltAs(in.Operation, asked, compute.FormatLUKS)
	require.NoError(t, err)
	will.Disks[0].Secret, will.Disks[0].BackingSecret, will.Disks[0].EncryptionOptions = &secret, &backing, map[string]string{"cipher-alg": "aes-256"}
	will.Disks[0].Whole = true // in a pool
	require.True(t, will.Disks[0].Encrypted)
	require.Equal(t, compute.FormatLUKS, will.Disks[0].Format)
	will.TPM = &compute.TPM{Version: compute.TPM12, Model: compute.TPMTIS, Security: compute.SecurityUser, Secret: &secret}
	b.Exec("INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, $2, 'yes'), ($1, $3, 'yes')", in.Server, compute.SystemUnbooted, compute.SystemNewTPM)
	decided := record.RebuildInput{OperationInput: in, Image: will.Image, Disks: will.Disks, TPM: will.TPM}
	for range 2 {
		require.NoError(t, b.Rebuild(b.ctx, decided))
	}
	row := b.row(in)
	require.Equal(t, "anew", row.Name)
	require.Equal(t, "vm", row.Hostname)
	require.Nil(t, row.Description)
	require.Equal(t, []*string{&name, &data}, []*string{row.KeyName, row.KeyData})
	require.Equal(t, "eA==", *row.UserData)
	require.Equal(t, map[string]string{"a": "b"}, row.Metadata)
	require.Equal(t, image.ID, *row.ImageID)
	require.Equal(t, []string{
		compute.TraitEncryption, compute.TraitTPM12, compute.TraitTPMUser, compute.TraitTPMTIS,
	}, row.RequiredTraits)
	require.Equal(t, []string{"CUSTOM_A"}, row.ForbiddenTraits)
	require.Nil(t, row.TPM.Secret)
	require.Equal(t, in.Operation, row.CurrentOperation, "it is not over")
	now, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	require.Equal(t, will.Disks, now.Disks)
	require.Equal(t, []string{"/dev/sda", "scsi", "e1000"}, []string{now.Disks[0].DeviceName, now.Disks[0].Bus, now.Hardware().NIC.Model}, "K6")
	require.Equal(t, will.TPM, now.TPM)
	require.False(t, now.Unbooted() || now.HasNewTPM(), "the new machine has run")
	require.Contains(t, b.Dump("server_disks"), "boot", "the tag stays")
	require.NotContains(t, b.Dump("server_disks", "server_system_metadata"), old.String())

	decided.TPM, decided.Disks = nil, now.Disks
	require.NoError(t, b.Rebuild(b.ctx, decided))
	require.NotContains(t, b.Dump("server_system_metadata"), secret.String())
	require.Nil(t, b.row(in).TPM)

	// An operation that lost the server decides nothing, but what it had decided is decided.
	next := b.supersede(in, compute.OpDelete, nil)
	before := b.Dump(everything...)
	require.NoError(t, b.Rebuild(b.ctx, decided))
	late := decided
	late.Disks = slices.Clone(decided.Disks)
	late.Disks[0].ID = compute.DiskID{UUID: uuid.New()}
	require.True(t, record.IsSuperseded(b.Rebuild(b.ctx, late)))
	require.Equal(t, before, b.Dump(everything...))

	empty := b.supersede(next, compute.OpRebuild, compute.RebuildRequest{Change: compute.ServerChange{Metadata: map[string]string{}}})
	decided.OperationInput = empty
	require.NoError(t, b.Rebuild(b.ctx, decided))
	require.Empty(t, b.row(empty).Metadata)
}

// K20: the decision of a rebuild whose host had lost the state of the vTPM is that of what took its place: nothing is put back any more, a backup that was
// not restored is none any more, and certificates that the operation got are those of the vTPM. It may run twice.
func TestK20RebuildOfALostVTPM(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lost, restored, decided, backup bool }{
		"there":    {backup: true},
		"lost":     {lost: true, decided: true},
		"restored": {lost: true, restored: true, decided: true, backup: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			first := b.server(compute.OpCreate)
			secret := compute.SecretID{UUID: uuid.New()}
			of := compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Security: compute.SecurityUser, Secret: &secret}
			b.Exec(`UPDATE servers SET tpm = '{"version": "2.0", "model": "tpm-crb", "security": "user", "endorsed": "req-had"}' WHERE id = $1`, first.Server)
			require.NoError(t, b.saveSecrets(first, record.Secrets{TPM: &secret}))
			backUp := b.supersede(first, compute.OpBackUpTPM, nil)
			require.NoError(t, b.TPMBackup(b.ctx, record.TPMBackupInput{OperationInput: backUp, Stored: compute.StoredTPM{Object: "o", SHA256: "s"}, Of: of}))
			in := b.supersede(backUp, compute.OpRebuild, compute.RebuildRequest{})
			begun, err := b.Begin(b.ctx, in)
			require.NoError(t, err)
			require.NotNil(t, begun.Server.Backup())
			kept := compute.Operation{ID: in.Operation, ServerID: in.Server}.Thing(compute.ThingTPMState, uuid.NewString(), compute.KeptTPM(in.Server, in.Operation))
			kept.Reference = compute.KeptUndecided
			require.NoError(t, b.open(in, record.Open{Event: "keep_tpm", Things: []compute.Thing{kept}}))
			made := compute.OperationID("req-had")
			if c.lost && !c.restored {
				made = in.Operation
				of.Endorsed = ""
				b.Exec("INSERT INTO tpm_endorsements VALUES ($1, $2, '{}', '{}')", in.Server, in.Operation)
			} else {
				of.Endorsed = made
			}
			disks := begun.Server.Disks
			disks[0].ID = compute.DiskID{UUID: uuid.New()}
			for range 2 {
				require.NoError(t, b.Rebuild(b.ctx, record.RebuildInput{
					OperationInput: in, Image: begun.Server.Image, Disks: disks, TPM: &of, TPMLost: c.lost, TPMRestored: c.restored,
				}))
			}
			now := b.load(in)
			require.Equal(t, c.backup, now.TPMBackup != nil)
			require.Equal(t, made, now.TPM.Endorsed)
			var reference string
			require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT reference FROM ledger WHERE name = $1", kept.Name).Scan(&reference))
			require.Equal(t, c.decided, reference == "", reference)
		})
	}
}

// What a rebuild was given as user data is in its row while it runs, and not longer, however
// it ends.
func TestLowUserDataOfARebuildGoWithIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	name, data := "anew", "IyEvYmluL3NoCg=="
	in := b.server(compute.OpCreate)
	for _, state := range []compute.OperationState{compute.OperationSucceeded, compute.OperationFailed} {
		in = b.supersede(in, compute.OpRebuild, compute.RebuildRequest{
			Change: compute.ServerChange{Name: &name, UserData: compute.Setting{Set: true, Text: &data}},
		})
		_, err := b.Begin(b.ctx, in)
		require.NoError(t, err)
		require.Contains(t, string(b.op(in).Arguments), data)
		require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: state, VMState: compute.VMActive}))
		require.Equal(t, state, b.op(in).State)
		require.NotContains(t, string(b.op(in).Arguments), data)
		asked, err := b.op(in).Rebuild()
		require.NoError(t, err)
		require.Equal(t, &name, asked.Change.Name, "the rest stays for the trail")
	}
	begun := b.supersede(in, compute.OpRebuild, compute.RebuildRequest{Change: compute.ServerChange{UserData: compute.Setting{Set: true, Text: &data}}})
	b.supersede(begun, compute.OpDelete, nil)
	_, err := b.Begin(b.ctx, begun)
	require.NoError(t, err)
	require.NotContains(t, string(b.op(begun).Arguments), data, "it never began")
}

// What an operation lends, takes back and lends again has one row all the while.
func TestAThingIsMadeOnceMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpRebuild)
	lent := []compute.Thing{thing(in, compute.ThingHypervisorSecret, "s")}
	for range 3 {
		for range 2 { // the step may run twice
			require.NoError(t, b.open(in, record.Open{Event: "start_domain", Things: lent}))
		}
		open, err := b.ledger.Things(b.ctx, compute.ServerOwner(in.Server))
		require.NoError(t, err)
		require.Len(t, open, 1)
		require.Equal(t, compute.ThingIntended, open[0].State)
		require.NoError(t, b.close(in, record.Close{Event: "start_domain", Present: lent, Released: lent}))
		open, err = b.ledger.Things(b.ctx, compute.ServerOwner(in.Server))
		require.NoError(t, err)
		require.Empty(t, open)
	}
}
