package record_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

func TestBeginGivesWhatTheOperationWorksWith(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("h1", 8, 8192)
	in := b.server(compute.OpCreate)
	var began time.Time
	for range 2 {
		got, err := b.Begin(b.ctx, in)
		require.NoError(t, err, "it may run again for the operation that it let in")
		require.False(t, got.Superseded)
		require.Equal(t, owner, got.Credential)
		require.Equal(t, in.Server, got.Server.ID)
		require.Len(t, got.Server.Disks, 1)
		require.Nil(t, got.Server.TPM.Secret)
		require.Nil(t, got.Arguments)
		require.Nil(t, got.Host)
		began = got.Began
	}
	op := b.op(in)
	require.Equal(t, compute.OperationRunning, op.State)
	require.NotNil(t, op.StartedAt)
	require.Equal(t, *op.StartedAt, began)

	_, err := b.placement.Claim(b.ctx, placement.ClaimInput{OperationInput: in, Plan: plan})
	require.NoError(t, err)
	secret, source, tpm := compute.SecretID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}
	require.NoError(t, b.saveSecrets(in, record.Secrets{Disks: map[string]compute.SecretID{b.disk(in).String(): secret},
		Sources: map[string]compute.SecretID{b.disk(in).String(): source}, TPM: &tpm,
	}))
	options := map[string]string{"cipher-alg": "aes-256"}
	require.NoError(t, b.saveOptions(in, record.Option{Disk: b.disk(in), Format: compute.FormatLUKS, Options: options, Whole: true}))
	require.NoError(t, b.task(in, compute.TaskSpawning))

	reboot := b.supersede(in, compute.OpReboot, compute.RebootArguments{Hard: true})
	got, err := b.Begin(b.ctx, reboot)
	require.NoError(t, err)
	require.JSONEq(t, `{"hard": true}`, string(got.Arguments))
	require.Equal(t, &durable.Host{ID: host, Name: "h1"}, got.Host)
	require.Equal(t, host, *got.Server.Host)
	require.Equal(t, secret, *got.Server.Disks[0].Secret)
	require.Equal(t, source, *got.Server.Disks[0].BackingSecret)
	require.Equal(t, options, got.Server.Disks[0].EncryptionOptions)
	require.True(t, got.Server.Disks[0].Whole)
	require.Equal(t, tpm, *got.Server.TPM.Secret)
	require.Equal(t, compute.TaskSpawning, got.Server.TaskState)

	require.NoError(t, b.ClearSecrets(b.ctx, reboot))
	got, err = b.Begin(b.ctx, reboot)
	require.NoError(t, err)
	require.Nil(t, got.Server.Disks[0].Secret)
	require.Nil(t, got.Server.Disks[0].BackingSecret)
	require.Nil(t, got.Server.TPM.Secret)
}

// K15: a delete needs nothing of what a tenant can make large, whatever the server's record has. Another operation on such a server is refused, and
// leaves it as it is.
func TestK15ARecordThatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpDelete)
	large := map[string]string{"a": strings.Repeat("<", 200<<10)}
	b.Exec(`UPDATE servers SET image = image || jsonb_build_object('properties', $2::jsonb, 'tags', '["t"]'::jsonb), networks = jsonb_build_array(jsonb_build_object('uuid', $3::text)) WHERE id = $1`,
		in.Server, large, strings.Repeat("x", 2<<20))
	got, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	require.NoError(t, durable.Fits("it", got))
	require.Empty(t, got.TooLarge)
	require.Empty(t, got.Server.Image.Properties)
	require.Empty(t, got.Server.Networks)
	require.NotEmpty(t, got.Server.Name)

	got, err = b.Begin(b.ctx, b.supersede(in, compute.OpReboot, compute.RebootArguments{}))
	require.NoError(t, err)
	require.NoError(t, durable.Fits("it", got))
	require.Regexp(t, `^the record of the server has 3\d\d\d KiB, and at most 1024 go through Temporal$`, got.TooLarge)
	require.NotEmpty(t, got.Server.VMState)
}

func TestBeginKeepsOutWhoLostTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	b.supersede(in, compute.OpDelete, nil)
	before := b.Dump("servers")
	for range 2 {
		got, err := b.Begin(b.ctx, in)
		require.NoError(t, err)
		require.Equal(t, record.BeginResult{Superseded: true}, got)
		require.Equal(t, compute.OperationCancelled, b.op(in).State)
	}
	require.Equal(t, before, b.Dump("servers"))
}

func TestBeginKeepsOutWhoIsSettled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreate)
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive}))
	got, err := b.Begin(b.ctx, in)
	require.NoError(t, err)
	require.True(t, got.Superseded)
	require.Equal(t, compute.OperationSucceeded, b.op(in).State)
}

func TestBeginRefusesARebootWithoutArguments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.supersede(b.server(compute.OpCreate), compute.OpReboot, nil)
	_, err := b.Begin(b.ctx, in)
	require.True(t, compute.Is(err, compute.Invalid), "%v", err)
	require.Equal(t, compute.OperationAccepted, b.op(in).State)
}
