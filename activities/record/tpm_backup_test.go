package record_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// withTPM gives a server a vTPM of a mode, and a host.
func (b *bundle) withTPM(in durable.OperationInput, host compute.HostID, mode string) compute.TPM {
	b.t.Helper()
	secret := uuid.New()
	b.Exec(`UPDATE servers SET tpm = jsonb_build_object('version', '2.0', 'model', 'tpm-crb', 'security', $2::text), host_id = $3 WHERE id = $1`, in.Server, mode, host)
	b.Exec("INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, 'tpm_secret_uuid', $2)", in.Server, secret.String())
	return compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Security: compute.SecretSecurity(mode), Secret: &compute.SecretID{UUID: secret}}
}

func (b *bundle) load(in durable.OperationInput) compute.Server {
	b.t.Helper()
	s, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(b.t, err)
	return s
}

// TPM-30: a backup is the next generation, or the same one once more; noted twice, it is noted
// once. A guest that runs again may change what was backed up. An operation that lost the server notes
// none.
func TestTPMBackup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.server(compute.OpCreate)
	of := b.withTPM(first, b.Host("a", 4, 4096), "host")
	in := b.supersede(first, compute.OpBackUpTPM, struct{}{})
	note := func(object string, same bool) compute.TPMBackup {
		t.Helper()
		in = b.supersede(in, compute.OpBackUpTPM, struct{}{})
		for range 2 {
			require.NoError(t, b.TPMBackup(b.ctx, record.TPMBackupInput{
				OperationInput: in, Stored: compute.StoredTPM{Object: object, SHA256: "ab"}, Of: of, Same: same, Final: true,
			}))
		}
		is := b.load(in).Backup()
		require.NotNil(t, is)
		require.Equal(t, object, is.Object)
		require.True(t, is.Final)
		return *is
	}
	one := note("tpm-backup/1", false)
	require.EqualValues(t, 1, one.Generation)
	again := note("tpm-backup/1", true)
	require.EqualValues(t, 1, again.Generation)
	require.True(t, again.At.After(one.At))
	require.EqualValues(t, 2, note("tpm-backup/2", false).Generation)
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive, Power: compute.PowerRunning}))
	require.False(t, b.load(in).Backup().Final)
	for ran, still := range map[bool]bool{true: false, false: true} { // a guest that was started, and is off again
		require.EqualValues(t, 2, note("tpm-backup/2", true).Generation)
		require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed, VMState: compute.VMActive, Power: compute.PowerShutdown, GuestRan: ran}))
		require.Equal(t, still, b.load(in).Backup().Final)
	}

	lost := b.supersede(in, compute.OpBackUpTPM, struct{}{})
	next := b.supersede(lost, compute.OpShelve, compute.ShelveArguments{})
	require.True(t, record.IsSuperseded(b.TPMBackup(b.ctx, record.TPMBackupInput{OperationInput: lost, Stored: compute.StoredTPM{Object: "x"}, Of: of})))
	shelve := record.ShelveInput{OperationInput: next, TPM: &compute.StoredTPM{Object: "tpm/x", SHA256: "cd"}}
	b.waitsForTPM(next)
	require.True(t, compute.Is(b.Shelve(b.ctx, shelve), compute.Conflict), "what was stored is not what is to be put back")
	require.NotNil(t, b.load(in).TPMBackup)
	require.Equal(t, compute.VMActive, b.row(next).VMState)
	b.Exec("DELETE FROM ledger WHERE kind = 'tpm_state'")
	require.NoError(t, b.Shelve(b.ctx, shelve))
	require.Nil(t, b.load(in).TPMBackup, "what the shelve keeps is newer")
	in = next
	b.waitsForTPM(in)
	require.True(t, compute.Is(b.TPMBackup(b.ctx, record.TPMBackupInput{OperationInput: in, Stored: compute.StoredTPM{Object: "x"}, Of: of}), compute.Conflict))
	require.Nil(t, b.load(in).TPMBackup, "the state is still to be put back")
	b.Exec("DELETE FROM ledger WHERE kind = 'tpm_state'")
	require.EqualValues(t, 3, note("tpm-backup/3", false).Generation, "no generation comes twice")
}

// TPM-30: a vTPM is backed up when its time has come: while its server runs, and once since that
// is off; where strongroom may, its host answers, and nobody is at work on it. So many at a time,
// and so many of a host. Backups that have ended leave the trail.
func TestBeginTPMBackups(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host, down := b.Host("a", 64, 65536), b.Host("b", 4, 4096)
	b.Exec("UPDATE hosts SET last_seen = now() - interval '1 hour' WHERE id = $1", down)
	is := map[compute.ServerID]string{}
	add := func(what, mode string, on compute.HostID, change string) compute.ServerID {
		in := b.server(compute.OpCreate)
		b.withTPM(in, on, mode)
		b.Exec("UPDATE servers SET vm_state = 'active', task_state = '', current_operation = '' WHERE id = $1", in.Server)
		b.Exec("UPDATE operations SET state = 'succeeded' WHERE server_id = $1", in.Server)
		if change != "" {
			b.Exec("UPDATE servers SET "+change+" WHERE id = $1", in.Server)
		}
		is[in.Server] = what
		return in.Server
	}
	runs := add("runs", "host", host, "")
	add("paused", "deployment", host, "vm_state = 'paused', tpm_backup_begun_at = now() - interval '2 hours'")
	add("off", "host", host, "vm_state = 'stopped', locked_by = 'owner'")
	add("off since its backup", "host", host, `vm_state = 'stopped', tpm_backup = '{"final": true}'`)
	add("early", "host", host, "tpm_backup_begun_at = now() - interval '59 minutes'")
	add("its owner's alone", "user", host, "")
	add("on a host that is down", "host", down, "")
	add("moved", "host", host, "former = '{}'")
	add("to be started", "host", host, "vm_state = 'stopped', resume_at = now()")
	add("somebody's", "host", host, "task_state = 'rebooting', current_operation = 'req-x'")
	add("shelved", "host", host, "vm_state = 'shelved'")
	b.waitsForTPM(durable.OperationInput{Server: add("to be put back", "host", host, "vm_state = 'stopped'")})
	evacuated := add("without a state", "host", host, "vm_state = 'stopped'")
	b.Exec("INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, 'tpm_new', 'yes')", evacuated)
	begin := func() (out []string) {
		t.Helper()
		begun, err := b.BeginTPMBackups(b.ctx)
		require.NoError(t, err)
		for _, op := range begun {
			require.Equal(t, compute.OpBackUpTPM, op.Kind)
			require.Equal(t, compute.MemberCredential(b.load(input(op)).ProjectID), op.Credential)
			require.Equal(t, compute.TaskBackingUpTPM, b.row(input(op)).TaskState)
			out = append(out, is[op.ServerID])
		}
		return out
	}
	require.Empty(t, begin(), "nobody has asked for backups")
	b.TPMBackupInterval = time.Hour
	require.ElementsMatch(t, []string{"runs", "off", "paused"}, begin())
	require.Empty(t, begin())

	end := func() {
		b.Exec("UPDATE operations SET state = 'succeeded' WHERE kind = 'backUpTPM'")
		b.Exec("UPDATE servers SET task_state = '', current_operation = '', tpm_backup_begun_at = NULL WHERE id = $1", runs)
	}
	b.Exec("INSERT INTO operation_events (operation_id, event, started_at) SELECT id, 'x', now() FROM operations WHERE server_id = $1 AND kind = 'backUpTPM'", runs)
	for range 3 {
		end()
		require.Equal(t, []string{"runs"}, begin())
	}
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM operations WHERE server_id = $1 AND kind = 'backUpTPM'", runs))
	require.Zero(t, b.CountRows("SELECT count(*) FROM operation_events WHERE event = 'x'"))

	for range 6 {
		add("more", "host", host, "")
	}
	require.Len(t, begin(), 3, "one of that host is under way")
	require.Empty(t, begin())
}
