package legacy_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/activities/legacy"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// nova describes a server of Nova's on a host that opens its disks.
func (b *bundle) nova(text string) legacy.Imported {
	b.t.Helper()
	host := b.Host("compute1", 8, 8192)
	b.Exec(`UPDATE hosts SET traits = $2 WHERE id = $1`, host, []string{compute.TraitEncryption, compute.TraitEncryptionPlain})
	all, err := legacy.ReadFile(strings.NewReader(text))
	require.NoError(b.t, err)
	in, err := all[0].Server(host, compute.DefaultLegacyEncryption)
	require.NoError(b.t, err)
	return in
}

func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/servers.yaml")
	require.NoError(t, err)
	return string(text)
}

// things gives the states of a server's rows on the ledger.
func (b *bundle) things(id compute.ServerID) map[string]string {
	b.t.Helper()
	out := map[string]string{}
	rows, err := b.DB.Query(b.Ctx, "SELECT kind || ' ' || name, state FROM ledger WHERE owner_id = $1", id)
	require.NoError(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var name, state string
		require.NoError(b.t, rows.Scan(&name, &state))
		out[name] = state
	}
	return out
}

// EE-48: a server is on record off, on its host, with the key and the options that its disks
// have; its volumes and key are on the ledger before anything is done to them, and nothing
// removes them before the import has ended. Then they are its own.
func TestEE48ImportServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.nova(example(t))
	op, err := b.Import(b.Ctx, in)
	require.NoError(t, err)
	disk, swap := "disk_file "+in.ID.String()+"/disk", "disk_file "+in.ID.String()+"/disk.swap"
	key := "key_secret strongroom legacy key " + in.Key.String() + " of server " + in.ID.String()
	handed := map[string]string{disk: "handed_over", swap: "handed_over", key: "handed_over"}
	require.Equal(t, handed, b.things(in.ID))
	_, err = b.Import(b.Ctx, in)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "an import has it: %v", err)
	state, _, err := b.Ended(b.Ctx, op.ID)
	require.NoError(t, err)
	require.Empty(t, state)
	other := in
	other.ID, other.Networks = compute.ServerID{UUID: uuid.New()}, nil
	_, err = b.Import(b.Ctx, other)
	require.ErrorContains(t, err, "is that of another server", "a key goes with one server")
	require.Equal(t, compute.Conflict, compute.KindOf(err))

	records := record.Activities{Pool: b.DB}
	as := durable.OperationInput{Operation: op.ID, Server: in.ID}
	begun, err := records.Begin(b.Ctx, as)
	require.NoError(t, err)
	require.Equal(t, *in.Host, begun.Host.ID)
	require.True(t, begun.Server.Unbooted(), "its first boot puts its domain on the ledger")
	require.Equal(t, compute.Resources{VCPUs: 2, MemoryMB: 2048, DiskGB: 21}, begun.Server.Resources())
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM claims WHERE server_id = $1 AND vcpus = 2 AND disk_gb = 21 AND group_mb = 0", in.ID))
	require.Equal(t, []compute.Network{{UUID: "0c0fa2f5-6f2b-4c6d-9d0c-0a9d7a3ef2b1", MAC: "fa:16:3e:12:34:56"}}, begun.Server.Networks)

	// It fails, and the server is deleted: the volumes and the key are Nova's.
	failed := record.SettleInput{OperationInput: as, State: compute.OperationFailed, Message: "no", VMState: compute.VMError}
	require.NoError(t, records.Settle(b.Ctx, failed))
	require.Equal(t, handed, b.things(in.ID))
	state, why, err := b.Ended(b.Ctx, op.ID)
	require.NoError(t, err)
	require.Equal(t, compute.OperationFailed, state)
	require.Equal(t, "no", why)
	_, err = b.Move(b.Ctx, in.ID)
	require.NoError(t, err)
	require.Equal(t, handed, b.things(in.ID), "nor does a move of the key make it the server's")

	// Described otherwise, it is imported again. Its host says by now what its volume group has.
	b.Exec(`UPDATE hosts SET group_mb = 1048576 WHERE id = $1`, in.Host)
	in.Disks[0].EncryptionOptions["hash-alg"] = "sha256"
	op, err = b.Import(b.Ctx, in)
	require.NoError(t, err)
	as.Operation = op.ID
	_, err = records.Begin(b.Ctx, as)
	require.NoError(t, err)
	done := record.SettleInput{OperationInput: as, State: compute.OperationSucceeded, VMState: compute.VMStopped, Launched: true}
	done.Close = &record.Close{Event: "adopt_volumes", Present: op.ImportedThings(in.Server, in.Key)}
	require.NoError(t, records.Settle(b.Ctx, done))
	require.Equal(t, map[string]string{disk: "present", swap: "present", key: "present"}, b.things(in.ID))

	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM claims WHERE server_id = $1 AND vcpus = 2 AND disk_gb = 0 AND group_mb = 20992", in.ID))
	left, err := b.Leftovers(b.Ctx)
	require.NoError(t, err)
	require.Len(t, left, 1)
	moved, err := b.Move(b.Ctx, in.ID)
	require.NoError(t, err)
	require.True(t, moved)
	s, err := schema.LoadServer(b.Ctx, b.Q, in.ID)
	require.NoError(t, err)
	require.Len(t, s.Disks, 2)
	for i, d := range s.Disks {
		require.True(t, d.Encrypted)
		require.Equal(t, compute.FormatPlain, d.Format)
		require.Equal(t, in.Key, *d.Secret)
		require.Equal(t, in.Disks[i].EncryptionOptions, d.EncryptionOptions, "EE-42: as the import said, each disk by itself")
	}
	has, err := (&ledger.Activities{Pool: b.DB}).Things(b.Ctx, compute.ServerOwner(in.ID))
	require.NoError(t, err)
	require.Len(t, has, 3, "what a delete removes")
	for _, thing := range has {
		if thing.Kind == compute.ThingKeySecret {
			require.Equal(t, in.Key.String(), thing.Reference)
			require.Equal(t, in.ProjectID, thing.Credential.ProjectID)
		}
	}
}

// EE-48: who imported a server with the wrong key, cipher, key size or hash imports it again with
// the right ones, whether the import before failed or not and whether its disks have the key
// already. The wrong key is handed back: no row has it, and nothing removes it. Once the server
// was booted here nothing of this changes any more.
func TestEE48ImportIsCorrected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.nova(example(t))
	records := record.Activities{Pool: b.DB}
	ends := func(state compute.OperationState, vm compute.VMState) {
		t.Helper()
		op, err := b.Import(b.Ctx, in)
		require.NoError(t, err)
		as := durable.OperationInput{Operation: op.ID, Server: in.ID}
		_, err = records.Begin(b.Ctx, as)
		require.NoError(t, err)
		end := record.SettleInput{OperationInput: as, State: state, VMState: vm}
		if state == compute.OperationSucceeded {
			end.Close = &record.Close{Event: "adopt_volumes", Present: op.ImportedThings(in.Server, in.Key)}
		}
		require.NoError(t, records.Settle(b.Ctx, end))
	}
	keyRow := func() string {
		return "key_secret strongroom legacy key " + in.Key.String() + " of server " + in.ID.String()
	}
	var wrong []string
	another := func(cipher string) {
		wrong = append(wrong, keyRow())
		in.Key = compute.SecretID{UUID: uuid.New()}
		options, err := compute.DMCrypt{Cipher: cipher, KeySize: 256, Hash: "sha256"}.Options()
		require.NoError(t, err)
		for i := range in.Disks {
			in.Disks[i].EncryptionOptions = options
		}
	}
	holds := func(state string) {
		t.Helper()
		rows := b.things(in.ID)
		require.Equal(t, state, rows[keyRow()])
		for _, row := range wrong {
			require.Equal(t, "released", rows[row], "it is Nova's again")
		}
		require.Len(t, rows, 3+len(wrong))
		s, err := schema.LoadServer(b.Ctx, b.Q, in.ID)
		require.NoError(t, err)
		require.Len(t, s.Disks, 2)
		for i, d := range s.Disks {
			require.Equal(t, in.Disks[i].EncryptionOptions, d.EncryptionOptions)
		}
	}
	ends(compute.OperationFailed, compute.VMError)
	another("aes-cbc-plain64")
	ends(compute.OperationFailed, compute.VMError)
	holds("handed_over")
	another("aes-xts-plain64")
	ends(compute.OperationSucceeded, compute.VMStopped)
	holds("present")
	_, err := b.Move(b.Ctx, in.ID)
	require.NoError(t, err)
	another("aes-cbc-essiv:sha256") // the first start was refused: the disks have a key that does not open them
	ends(compute.OperationSucceeded, compute.VMStopped)
	holds("present")
	moved, err := b.Move(b.Ctx, in.ID)
	require.NoError(t, err)
	require.True(t, moved)
	s, err := schema.LoadServer(b.Ctx, b.Q, in.ID)
	require.NoError(t, err)
	require.Equal(t, in.Key, *s.Disks[0].Secret)
	has, err := (&ledger.Activities{Pool: b.DB}).Things(b.Ctx, compute.ServerOwner(in.ID))
	require.NoError(t, err)
	require.Len(t, has, 3, "a delete removes the right key, and no other")

	// One that fails now leaves a server that starts, with the new key: it is the server's as its volumes are.
	another("aes-xts-plain64")
	ends(compute.OperationFailed, compute.VMStopped)
	holds("present")
	_, err = b.Move(b.Ctx, in.ID)
	require.NoError(t, err)
	holds("present")
	has, err = (&ledger.Activities{Pool: b.DB}).Things(b.Ctx, compute.ServerOwner(in.ID))
	require.NoError(t, err)
	require.Len(t, has, 3, "a delete leaves no key behind")
	// The volume of a disk that is said now for the first time is Nova's, and the key with it, until an import has ended.
	in.Disks = append(slices.Clone(in.Disks), in.Disks[1])
	in.Disks[2].ID, in.Disks[2].Role, in.Disks[2].DeviceName, in.Disks[2].File = compute.DiskID{UUID: uuid.New()}, compute.EphemeralDisk, "/dev/vdc", "disk.eph0"
	another("aes-xts-plain64")
	ends(compute.OperationFailed, compute.VMStopped)
	require.Equal(t, "handed_over", b.things(in.ID)[keyRow()])
	require.Equal(t, "handed_over", b.things(in.ID)["disk_file "+in.ID.String()+"/disk.eph0"])
	ends(compute.OperationSucceeded, compute.VMStopped)
	require.Equal(t, "present", b.things(in.ID)[keyRow()])

	refused := func(why string) {
		t.Helper()
		before := b.Dump("servers", "server_disks", "ledger", "operations")
		_, err := b.Import(b.Ctx, in)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, why)
		require.Equal(t, before, b.Dump("servers", "server_disks", "ledger", "operations"))
	}
	right := in
	other := in
	other.ID, other.Key, other.Networks = compute.ServerID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}, []compute.Network{}
	other.Disks = slices.Clone(in.Disks)
	for i := range other.Disks {
		other.Disks[i].ID = compute.DiskID{UUID: uuid.New()}
	}
	_, err = b.Import(b.Ctx, other)
	require.NoError(t, err)
	in.Key = other.Key
	refused("is that of another server")
	in = right
	b.Exec("DELETE FROM server_system_metadata WHERE server_id = $1 AND key = $2", in.ID, compute.SystemUnbooted)
	refused("it was booted here")
	another("aes-xts-plain64")
	refused("it was booted here")
}

// What is here already is not overwritten by an import.
func TestEE48ImportIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.nova(example(t))
	refused := func(change func(*legacy.Imported), why string) {
		t.Helper()
		other := in
		change(&other)
		before := b.Dump("servers", "server_disks", "ledger", "operations")
		_, err := b.Import(b.Ctx, other)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, why)
		require.Equal(t, before, b.Dump("servers", "server_disks", "ledger", "operations"))
	}
	plain := b.Host("compute2", 8, 8192)
	refused(func(o *legacy.Imported) { o.Host = &plain }, compute.TraitEncryptionPlain)
	made := b.Server(compute.OpCreate)
	refused(func(o *legacy.Imported) { o.ID = made.ServerID }, "another owner")
	b.Exec("UPDATE servers SET project_id = $2, user_id = $3, current_operation = '', task_state = '', vm_state = 'stopped' WHERE id = $1", made.ServerID, in.ProjectID, in.UserID)
	refused(func(o *legacy.Imported) { o.ID = made.ServerID }, "cannot be imported again")
	_, err := b.Import(b.Ctx, in)
	require.NoError(t, err)
	b.Exec("UPDATE servers SET current_operation = '', task_state = '', vm_state = 'active' WHERE id = $1", in.ID)
	refused(func(*legacy.Imported) {}, "cannot be imported again: it is active")
	b.Exec("UPDATE servers SET vm_state = 'stopped' WHERE id = $1", in.ID)
	refused(func(o *legacy.Imported) { o.UserID = "another" }, "another owner or host")
	refused(func(o *legacy.Imported) { o.ID = compute.ServerID{UUID: uuid.New()} }, "fa:16:3e:12:34:56")
	b.Exec("UPDATE servers SET deleted_at = now() WHERE id = $1", in.ID)
	refused(func(*legacy.Imported) {}, "cannot be imported again")
}

// EE-46: a key that opens an image, made for it or named by its user, becomes no server's, with which it would go. One of an
// import that failed is Nova's, whatever became of its server.
func TestEE46TheKeyOfAnImageIsNotImported(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.nova(example(t))
	right, made, named := in.Key, compute.SecretID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}
	op := b.Server(compute.OpCreate)
	secret := op.Thing(compute.ThingKeySecret, compute.PlaceKeyManager, "strongroom image "+uuid.NewString()+" "+string(op.ID))
	secret.Reference = made.String()
	require.NoError(t, ledger.Open(b.Ctx, b.Q, []compute.Thing{secret}))
	require.NoError(t, ledger.HandOver(b.Ctx, b.Q, []compute.Thing{secret}))
	require.NoError(t, b.Q.RecordImageKey(b.Ctx, schema.RecordImageKeyParams{
		ImageID: compute.ImageID{UUID: uuid.New()}, OperationID: op.ID, ProjectID: in.ProjectID, Secret: named,
	}))
	refused := func(key compute.SecretID) {
		t.Helper()
		in.Key = key
		before := b.Dump("servers", "server_disks", "ledger", "operations")
		_, err := b.Import(b.Ctx, in)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "key "+key.String()+" is that of an image")
		require.Equal(t, before, b.Dump("servers", "server_disks", "ledger", "operations"))
	}
	refused(made)
	refused(named)
	in.Key = right
	_, err := b.Import(b.Ctx, in)
	require.NoError(t, err)
	b.Exec("UPDATE servers SET current_operation = '', task_state = '', vm_state = 'error' WHERE id = $1", in.ID)
	refused(made)
	refused(named)
	b.Exec("UPDATE servers SET deleted_at = now() WHERE id = $1", in.ID)
	in.ID, in.Key, in.Networks = compute.ServerID{UUID: uuid.New()}, right, []compute.Network{}
	in.Disks = slices.Clone(in.Disks)
	for i := range in.Disks {
		in.Disks[i].ID = compute.DiskID{UUID: uuid.New()}
	}
	_, err = b.Import(b.Ctx, in)
	require.NoError(t, err)
}

// The file of the documents, and what it may not say.
func TestEE48ImportFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.nova(example(t))
	require.Equal(t, "disk.swap", in.Disks[1].Name())
	require.Equal(t, int64(20<<10), in.Disks[0].SizeMB)
	require.Equal(t, "aes-128", in.Disks[0].EncryptionOptions["cipher-alg"], "the server's")
	require.Equal(t, "sha256", in.Disks[1].EncryptionOptions["hash-alg"], "the disk's own")
	require.Equal(t, "ripemd160", in.Disks[0].EncryptionOptions["hash-alg"], "the default")
	require.Equal(t, "256", in.Disks[1].EncryptionOptions["key-size"])

	base := map[string]any{
		"id": uuid.NewString(), "host": "h", "project_id": "p", "user_id": "u", "name": "n", "key": uuid.NewString(),
		"flavor": map[string]any{"name": "f", "vcpus": 1, "memory_mb": 1, "root_gb": 1, "ephemeral_gb": 1},
	}
	for name, v := range map[string]struct {
		field string
		value any
		says  string
	}{
		"as it is":        {"name", "n", ""},
		"old ephemeral":   {"disks", []any{map[string]any{"role": "ephemeral", "volume": "disk.local"}}, ""},
		"old machine":     {"image", map[string]any{"id": uuid.NewString(), "properties": map[string]any{"hw_machine_type": "pc-i440fx-6.2"}}, ""},
		"UEFI":            {"image", map[string]any{"id": uuid.NewString(), "properties": map[string]any{"hw_firmware_type": "uefi"}}, "it begins with UEFI"},
		"no key":          {"key", nil, "key is missing"},
		"no owner":        {"project_id", "", "project_id is missing"},
		"unknown field":   {"ket", "x", "ket"},
		"no uuid":         {"id", "x", "invalid UUID"},
		"no cores":        {"flavor", map[string]any{"name": "f", "memory_mb": 1}, "flavor.vcpus"},
		"no size":         {"flavor", map[string]any{"name": "f", "vcpus": 1, "memory_mb": 1}, "size_mb"},
		"no such disk":    {"disks", []any{map[string]any{"role": "swap"}}, "no such disk: swap"},
		"another's":       {"disks", []any{map[string]any{"role": "root", "volume": "../x"}}, "no name of a volume"},
		"cipher":          {"encryption", map[string]any{"cipher": "rot13"}, "rot13"},
		"hash":            {"encryption", map[string]any{"hash": "--readonly"}, "--readonly"},
		"key size":        {"encryption", map[string]any{"key_size": 7}, "key_size 7"},
		"address":         {"networks", []any{map[string]any{"uuid": uuid.NewString(), "mac": "x"}}, "a uuid and a mac"},
		"secret security": {"flavor", map[string]any{"name": "f", "vcpus": 1, "memory_mb": 1, "root_gb": 1, "extra_specs": map[string]any{"hw:ephemeral_encryption_secret_security": "x"}}, "x"},
	} {
		server := map[string]any{}
		for k, is := range base {
			server[k] = is
		}
		server[v.field] = v.value
		text, err := json.Marshal(map[string]any{"servers": []any{server}})
		require.NoError(t, err)
		all, err := legacy.ReadFile(strings.NewReader(string(text)))
		if err == nil {
			_, err = all[0].Server(*in.Host, compute.DefaultLegacyEncryption)
		}
		if v.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, v.says, name)
	}
	for _, none := range []string{"", "servers: []", "[]", "servers:\n" + strings.Repeat("- {id: 5e2d5cbe-3f5d-4d2e-8c0c-6ad5f1d9a001}\n", 2)} {
		_, err := legacy.ReadFile(strings.NewReader(none))
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%q: %v", none, err)
	}
}
