package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema/schematest"
)

// forgetBundle is a database with a host that has been silent for a day, and what waits
// for it.
type forgetBundle struct {
	*schematest.Fixture
	host  compute.HostID
	owner compute.Owner
}

func newForgetBundle(t *testing.T) *forgetBundle {
	t.Helper()
	f := schematest.NewFixture(t)
	t.Setenv("STRONGROOM_DATABASE__URL", f.DB.Config().ConnString())
	b := &forgetBundle{Fixture: f, host: f.Host("node-7", 8, 8192)}
	f.Exec("UPDATE hosts SET last_seen = now() - interval '1 day'")
	op := f.Server(compute.OpDelete)
	op.Credential = schematest.Owner
	b.owner = compute.ServerOwner(op.ServerID)
	disk := op.Thing(compute.ThingDiskFile, b.host.String(), op.ServerID.String()+"/disk").Waits(compute.BlockedByHost, "its host does not answer")
	require.NoError(t, ledger.Open(f.Ctx, f.Q, []compute.Thing{disk}))
	require.NoError(t, ledger.Wait(f.Ctx, f.Q, []compute.Thing{disk}))
	return b
}

// forget runs the command and gives what it prints.
func forget(t *testing.T, c hostForget) (string, error) {
	t.Helper()
	c.Output = "json"
	read, write, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = write
	err = c.Run(&run{Context: t.Context(), cli: &cli{}})
	os.Stdout = stdout
	require.NoError(t, write.Close())
	text, readErr := io.ReadAll(read)
	require.NoError(t, readErr)
	return string(text), err
}

// TPM-33: the command as an operator runs it, on a host that never comes back.
func TestHostForget(t *testing.T) {
	b := newForgetBundle(t)
	isForgotten := func() int { return b.CountRows("SELECT count(*) FROM hosts WHERE forgotten_at IS NOT NULL") }
	refused := func(c hostForget, why string) {
		t.Helper()
		out, err := forget(t, c)
		require.ErrorContains(t, err, why)
		require.NotContains(t, err.Error(), "\n")
		require.Equal(t, 1, exitCode(err))
		require.Empty(t, out)
		require.Zero(t, isForgotten())
	}
	refused(hostForget{Host: "node-8", Yes: true}, "there is no host node-8")
	b.Exec("UPDATE servers SET host_id = $1", b.host)
	refused(hostForget{Host: "node-7", Yes: true}, "host node-7 still has 1 servers: delete them first")
	b.Exec("UPDATE servers SET deleted_at = now()")
	refused(hostForget{Host: "node-7"}, "say --yes")

	for i, name := range []string{"node-7", strings.ToUpper(b.host.String())} {
		out, err := forget(t, hostForget{Host: name, Yes: true})
		require.NoError(t, err)
		require.Equal(t, 1, isForgotten())
		var got forgotten
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		require.Equal(t, durable.Host{ID: b.host, Name: "node-7"}, got.Host)
		require.Len(t, got.Things, 1-i, "the second time nothing is left to be let go")
		for _, thing := range got.Things {
			require.Equal(t, compute.ThingDiskFile, thing.Kind)
			require.Equal(t, b.owner, thing.Owner)
		}
	}
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE state = 'released'"))
}

// Who is asked sees what stays behind, and nothing but a yes is one.
func TestHostForgetAsks(t *testing.T) {
	t.Parallel()
	var asked strings.Builder
	warning := forgetWarning(durable.Host{Name: "node-7"}, []compute.Thing{{Kind: compute.ThingTPMState}, {Kind: compute.ThingDiskFile}, {Kind: compute.ThingDiskFile}})
	require.NoError(t, confirm(strings.NewReader("Yes\n"), &asked, warning))
	require.Contains(t, asked.String(), "stays on its disks: 2 disk_file, 1 tpm_state.")
	require.NoError(t, confirm(strings.NewReader("y"), io.Discard, warning))
	for _, answer := range []string{"", "\n", "n\n", "yesterday\n"} {
		require.EqualError(t, confirm(strings.NewReader(answer), io.Discard, warning), "nothing was done", answer)
	}
	require.Contains(t, forgetWarning(durable.Host{}, nil), "disks: nothing.")
}

// strongroom host alone is the worker, as service files have it.
func TestHostAloneRunsTheWorker(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"host": "host run", "host run": "host run", "host forget node-7": "host forget <host>"} {
		var c struct {
			Host hostCommand `cmd:""`
		}
		parser, err := kong.New(&c)
		require.NoError(t, err)
		got, err := parser.Parse(strings.Fields(line))
		require.NoError(t, err)
		require.Equal(t, want, got.Command(), line)
	}
}
