package record_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// TPM-17 … TPM-19: a server that was moved is on record as it is and as it was, until it is decided;
// each decision may be made twice. Its migration says how far it is.
func TestMoveAndDecide(t *testing.T) {
	t.Parallel()
	for _, revert := range []bool{false, true} {
		b := setup(t)
		from, to := b.Host("a", 4, 4096), b.Host("b", 4, 4096)
		first := b.server(compute.OpCreate)
		b.Exec("UPDATE servers SET host_id = $2, vm_state = 'active', disk_config = 'MANUAL' WHERE id = $1", first.Server, from)
		claim := func(host any, op compute.OperationID) {
			b.Exec("INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, $3, 1, 1, 1)", first.Server, host, op)
		}
		claim(from, first.Operation)
		in := b.supersede(first, compute.OpResize, compute.ResizeArguments{})
		claim(to, in.Operation)
		was, err := schema.LoadServer(b.ctx, b.q, in.Server)
		require.NoError(t, err)

		will := was
		dest := compute.HostID{UUID: uuid.MustParse(to.String())}
		will.Host, will.Flavor.ID, will.Flavor.VCPUs = &dest, "larger", 2
		will.TPM = &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Security: compute.SecurityUser, Secret: &compute.SecretID{UUID: uuid.New()}}
		will.Disks = append([]compute.Disk{}, was.Disks...)
		will.Disks[0].File, will.Disks[0].SizeMB = "disk.new", 4096
		will.Disks = append(will.Disks, compute.Disk{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.SwapDisk, DeviceName: "/dev/vdz", Bus: "virtio", SizeMB: 64, BootIndex: -1, GuestFormat: "swap", EncryptionOptions: map[string]string{}})
		task := compute.TaskResizeMigrating
		_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Task: &task, Migration: &record.Migration{Type: "resize", To: dest, Flavor: "larger"}})
		require.NoError(t, err)
		status := func() string {
			rows, err := b.q.ListMigrations(b.ctx, schema.ListMigrationsParams{Most: 10})
			require.NoError(t, err)
			require.Len(t, rows, 1)
			require.Equal(t, []string{"a", "b", "larger"}, []string{rows[0].Source, rows[0].Destination, rows[0].NewFlavor})
			return rows[0].Status
		}
		require.Equal(t, "migrating", status())
		kept := compute.Operation{ID: in.Operation, ServerID: in.Server}.Thing(compute.ThingTPMState, from.String(), compute.KeptTPM(in.Server, in.Operation))
		kept.Reference = compute.KeptUndecided
		require.NoError(t, b.open(in, record.Open{Event: "keep_tpm", Things: []compute.Thing{kept}}))
		require.NoError(t, b.close(in, record.Close{Event: "keep_tpm", Present: []compute.Thing{kept}}))
		reference := func() (out string) {
			require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT reference FROM ledger WHERE name = $1", kept.Name).Scan(&out))
			return out
		}
		require.Equal(t, compute.KeptUndecided, reference())
		claims := func() (out []compute.OperationID) {
			rows, err := b.Pool.Query(b.ctx, "SELECT operation_id FROM claims WHERE server_id = $1 ORDER BY host_id = $2 DESC", in.Server, from)
			require.NoError(t, err)
			out, err = pgx.CollectRows(rows, pgx.RowTo[compute.OperationID])
			require.NoError(t, err)
			return out
		}
		automatic := "AUTO"
		end := record.SettleInput{
			OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMResized, Power: compute.PowerRunning, Launched: true,
			Move: &record.Move{To: will, DiskConfig: &automatic, ConfirmAfter: 60},
		}
		for range 2 {
			require.NoError(t, b.Settle(b.ctx, end))
		}
		require.Equal(t, "finished", status())
		is, err := schema.LoadServer(b.ctx, b.q, in.Server)
		require.NoError(t, err)
		require.Equal(t, []compute.OperationID{first.Operation, in.Operation}, claims(), "both are its own until it is decided")
		require.Equal(t, 1, b.CountRows("SELECT count(*) FROM servers WHERE disk_config = 'AUTO' AND confirm_at > now() AND confirm_at <= now() + interval '60 seconds'"))
		require.Equal(t, compute.VMResized, is.VMState)
		require.Equal(t, compute.TaskNone, is.TaskState)
		require.Empty(t, reference(), "whoever removes the copy now puts nothing back")
		require.NotNil(t, is.Former)
		require.Equal(t, []any{compute.VMActive, was.Flavor, *was.Host, "a"}, []any{is.Former.VMState, is.Former.Flavor, is.Former.Host, is.Former.HostName})
		require.Equal(t, will.Disks, is.Disks)
		require.Equal(t, []any{will.Flavor, will.TPM, dest}, []any{is.Flavor, is.TPM, *is.Host})

		kind, decide := compute.OpConfirmResize, b.ConfirmResize
		if revert {
			kind, decide = compute.OpRevertResize, b.RevertResize
		}
		lost := b.supersede(in, kind, struct{}{})
		next := b.supersede(in, kind, struct{}{})
		deciding := map[bool]string{false: "confirming", true: "reverting"}[revert]
		_, err = b.Begin(b.ctx, next)
		require.NoError(t, err)
		require.Equal(t, deciding, status())
		require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: next, State: compute.OperationFailed, VMState: compute.VMResized}))
		require.Equal(t, "finished", status(), "it may be decided again")
		next = b.supersede(in, kind, struct{}{})
		before := b.Dump("servers")
		require.True(t, record.IsSuperseded(decide(b.ctx, record.DecideMoveInput{OperationInput: lost})))
		require.Equal(t, before, b.Dump("servers"))
		require.Equal(t, "finished", status())
		require.Len(t, claims(), 2)
		_, err = b.Begin(b.ctx, next)
		require.NoError(t, err)
		if !revert { // a copy that a revert that failed left is all that there is of the vTPM
			b.Exec("UPDATE ledger SET state = 'waiting', blocked_by = 'host', try_at = now(), reference = 'undecided' WHERE name = $1", kept.Name)
			require.True(t, compute.Is(decide(b.ctx, record.DecideMoveInput{OperationInput: next}), compute.Conflict))
			require.Len(t, claims(), 2)
			require.Equal(t, compute.KeptUndecided, reference())
			b.Exec("UPDATE ledger SET state = 'present', blocked_by = '', reference = '' WHERE name = $1", kept.Name)
		}
		for range 2 {
			require.NoError(t, decide(b.ctx, record.DecideMoveInput{OperationInput: next}))
		}
		now, err := schema.LoadServer(b.ctx, b.q, in.Server)
		require.NoError(t, err)
		require.Nil(t, now.Former)
		require.Equal(t, 1, b.CountRows("SELECT count(*) FROM servers WHERE confirm_at IS NULL"))
		if !revert {
			require.Equal(t, []compute.OperationID{in.Operation}, claims())
			require.Equal(t, "confirmed", status())
			require.Equal(t, []any{will.Flavor, will.Disks, will.TPM, dest}, []any{now.Flavor, now.Disks, now.TPM, *now.Host})
			require.Equal(t, 1, b.CountRows("SELECT count(*) FROM servers WHERE disk_config = 'AUTO'"))
			continue
		}
		require.Equal(t, []compute.OperationID{first.Operation}, claims())
		require.Equal(t, "reverted", status())
		require.Equal(t, []any{was.Flavor, was.Disks, was.TPM, *was.Host}, []any{now.Flavor, now.Disks, now.TPM, *now.Host})
		row, err := b.q.GetServer(b.ctx, in.Server)
		require.NoError(t, err)
		require.Equal(t, "MANUAL", row.DiskConfig)
	}
}

// TPM-18, TPM-19: of a server that is off it is on record that its new vTPM has no state yet; a revert takes that back, and
// leaves it with what had none before, either.
func TestMoveOfAServerThatIsOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ revert, was, now bool }{
		"confirmed": {false, false, true}, "reverted": {true, false, false}, "reverted to one without": {true, true, true},
	} {
		b := setup(t)
		from := b.Host("a", 4, 4096)
		first := b.server(compute.OpCreate)
		b.Exec("UPDATE servers SET host_id = $2, vm_state = 'stopped', tpm = $3 WHERE id = $1", first.Server, from, &compute.TPM{Version: compute.TPM20, Model: compute.TPMTIS, Security: compute.SecurityUser})
		if c.was {
			b.Exec("INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, $2, 'yes')", first.Server, compute.SystemNewTPM)
		}
		load := func() compute.Server {
			s, err := schema.LoadServer(b.ctx, b.q, first.Server)
			require.NoError(t, err)
			return s
		}
		require.Equal(t, c.was, load().HasNewTPM(), name)
		in := b.supersede(first, compute.OpResize, compute.ResizeArguments{})
		will := load().WithNewTPM(true)
		will.TPM = &compute.TPM{Version: compute.TPM12, Model: compute.TPMTIS, Security: compute.SecurityUser}
		require.NoError(t, b.Settle(b.ctx, record.SettleInput{
			OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMResized, Power: compute.PowerShutdown, Move: &record.Move{To: will},
		}))
		require.True(t, load().HasNewTPM(), name)
		kind, decide := compute.OpConfirmResize, b.ConfirmResize
		if c.revert {
			kind, decide = compute.OpRevertResize, b.RevertResize
		}
		require.NoError(t, decide(b.ctx, record.DecideMoveInput{OperationInput: b.supersede(in, kind, struct{}{})}))
		require.Equal(t, c.now, load().HasNewTPM(), name)
	}
}

// waitsForTPM notes that a copy of the state of a server's vTPM is still to be put back.
func (b *bundle) waitsForTPM(in durable.OperationInput) {
	b.t.Helper()
	b.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
		VALUES (gen_random_uuid(), 'tpm_state', gen_random_uuid()::text, $1::text || '.0123abcd', 'undecided', 'server', $1::text::uuid, 'req-before', gen_random_uuid(), 'p', 'u',
			'waiting', 'host', now())`, in.Server.String())
}

// A window that is over confirms; a server in it, and one that somebody is at, are left alone.
func TestBeginConfirms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begin := func() []compute.Operation {
		begun, err := b.BeginConfirms(b.ctx)
		require.NoError(t, err)
		return begun
	}
	in := b.server(compute.OpCreate)
	b.Exec("UPDATE servers SET vm_state = 'resized', task_state = '', current_operation = '', confirm_at = now() + interval '1 minute' WHERE id = $1", in.Server)
	require.Empty(t, begin())
	b.Exec("UPDATE servers SET confirm_at = now() - interval '1 second' WHERE id = $1", in.Server)
	for _, left := range []string{
		"task_state = 'resize_reverting'", "current_operation = 'req-of-somebody'", "vm_state = 'active'", "vm_state = 'error'", "deleted_at = now()", "confirm_at = NULL",
	} {
		column, _, _ := strings.Cut(left, " ")
		b.Exec("CREATE TABLE was AS SELECT * FROM servers")
		b.Exec("UPDATE servers SET "+left+" WHERE id = $1", in.Server)
		require.Empty(t, begin(), left)
		b.Exec("UPDATE servers SET " + column + " = was." + column + " FROM was")
		b.Exec("DROP TABLE was")
	}
	b.waitsForTPM(in)
	require.Empty(t, begin(), "a revert failed: its vTPM's state is still to be put back")
	b.Exec("DELETE FROM ledger WHERE kind = 'tpm_state'")
	b.Exec("UPDATE servers SET locked_by = 'owner' WHERE id = $1", in.Server)
	begun := begin()
	require.Len(t, begun, 1, "a lock keeps people out, and not the operator's window")
	require.Equal(t, compute.OpConfirmResize, begun[0].Kind)
	require.Equal(t, in.Server, begun[0].ServerID)
	is, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	require.Equal(t, compute.TaskResizeConfirming, is.TaskState)
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM servers s JOIN operations o ON o.id = s.current_operation WHERE o.kind = 'confirmResize' AND o.state = 'accepted' AND o.server_id = s.id"))
	require.Empty(t, begin())

	// It fails: nobody asks again at once.
	b.Exec("UPDATE servers SET task_state = '', current_operation = '' WHERE id = $1", in.Server)
	require.Empty(t, begin())
	b.Exec("UPDATE servers SET confirm_at = confirm_at - interval '1 hour' WHERE id = $1", in.Server)
	require.Len(t, begin(), 1)
}
