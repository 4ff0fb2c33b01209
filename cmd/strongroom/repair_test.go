package main

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/worker"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	imagelocal "strongroom/activities/image/local"
	"strongroom/activities/key"
	keylocal "strongroom/activities/key/local"
	"strongroom/activities/ledger"
	"strongroom/activities/mount"
	objectlocal "strongroom/activities/object/local"
	"strongroom/activities/tpm"
	trustlocal "strongroom/activities/trust/local"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/deploy/dev/temporal"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/schema/schematest"
	"strongroom/worker"
	"strongroom/workflows"
)

// restored is a cloud with PostgreSQL, Temporal, a control worker, local services and a host
// of real files, whose database is restored.
type restored struct {
	*schematest.Fixture
	t        *testing.T
	temporal *temporal.Server
	client   client.Client
	keys     key.Manager
	control  worker.Control
	stop     func()
	host     compute.HostID
	files    *disk.Activities
	states   *tpm.Activities

	mu      sync.Mutex
	domains map[string]bool
}

func newRestored(t *testing.T) *restored {
	t.Helper()
	dir := t.TempDir()
	c := &restored{Fixture: schematest.NewFixture(t), t: t, temporal: temporaltest.Start(t), domains: map[string]bool{}}
	c.client = temporaltest.Dial(t, c.temporal)
	keys, err := keylocal.Open(filepath.Join(dir, "keys"), filepath.Join(dir, "keys.master"))
	require.NoError(t, err)
	c.keys = keys
	images, err := imagelocal.Open(imagelocal.Config{Dir: filepath.Join(dir, "images")})
	require.NoError(t, err)
	objects, err := objectlocal.Open(filepath.Join(dir, "objects"))
	require.NoError(t, err)
	trusts, err := trustlocal.Open(filepath.Join(dir, "trusts"))
	require.NoError(t, err)
	c.control = worker.Control{
		Temporal: c.client, Namespace: c.temporal.Namespace(), Version: "1.0.0", Pool: c.DB, Logger: slog.New(slog.DiscardHandler),
		Keys: keys, Images: images, Objects: objects, Trusts: trusts,
	}
	c.files = &disk.Activities{Config: disk.Config{
		InstancesDir: filepath.Join(dir, "instances"), CacheDir: filepath.Join(dir, "cache"), Keys: keys, Logger: slog.New(slog.DiscardHandler),
	}}
	c.states = &tpm.Activities{SwtpmDir: filepath.Join(dir, "swtpm")}
	for _, folder := range []string{c.files.InstancesDir, c.files.CacheDir} {
		require.NoError(t, os.MkdirAll(folder, 0o700))
	}
	c.host = c.Host("node-1", 64, 65536)
	c.Exec("UPDATE hosts SET last_seen = now() + interval '1 hour'")
	c.serveHost()
	c.work()
	t.Cleanup(func() { c.stop() })
	return c
}

// work runs a control worker.
func (c *restored) work() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.control.Run(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(c.t, <-ended)
	})
	require.Eventually(c.t, func() bool {
		d, err := c.client.ScheduleClient().GetHandle(c.t.Context(), workflows.JanitorName).Describe(c.t.Context())
		return err == nil && len(d.Info.RecentActions) > 0
	}, time.Minute, 50*time.Millisecond)
}

// serveHost has the host take what an audit and a removal ask for. Its files are real.
func (c *restored) serveHost() {
	c.t.Helper()
	options := sdk.Options{
		DisableWorkflowWorker: true, DisableRegistrationAliasing: true, Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
	}
	state := sdk.New(c.client, durable.HostStateQueue(c.host), options)
	volume.Seen.Register(state, func(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) { return in.PageOf(nil), nil })
	require.NoError(c.t, state.Start())
	c.t.Cleanup(state.Stop)
	w := sdk.New(c.client, durable.HostQueue(c.host), options)
	disk.Seen.Register(w, c.files.Seen)
	disk.Remove.Register(w, durable.NoResult(c.files.Remove))
	c.states.Register(w)
	(&mount.Activities{}).Register(w) // no shares are mounted
	domain.Seen.Register(w, func(_ context.Context, in compute.SeenInput) (compute.SeenResult, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		var all []compute.Seen
		for name := range c.domains {
			all = append(all, compute.Seen{Kind: compute.ThingDomain, Name: name})
		}
		return in.PageOf(all), nil
	})
	domain.Remove.Register(w, durable.NoResult(func(_ context.Context, in compute.Removal) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.domains, in.Thing.Name)
		return nil
	}))
	require.NoError(c.t, w.Start())
	c.t.Cleanup(w.Stop)
}

// spawn makes a server as a create leaves it: on record, on the ledger and in the world.
func (c *restored) spawn() compute.Operation {
	c.t.Helper()
	op := c.Server(compute.OpCreate)
	op.Credential = schematest.Owner
	id := op.ServerID
	c.Exec("UPDATE operations SET state = 'succeeded', finished_at = now() WHERE id = $1", op.ID)
	rootKey, tpmKey := c.secret(compute.DiskSecret(id, op.ID, root)), c.secret(compute.TPMSecret(id, op.ID))
	c.Exec("UPDATE server_disks SET encryption_secret_uuid = $2 WHERE server_id = $1", id, rootKey.ID)
	c.Exec("INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, $2, $3)", id, compute.SystemTPMSecret, tpmKey.ID.String())
	c.Exec("UPDATE servers SET vm_state = 'active', task_state = '', host_id = $2, updated_at = now() - interval '1 hour', current_operation = '' WHERE id = $1", id, c.host)
	c.file(id, "disk")
	c.file(id, compute.ConsoleLogFile)
	require.NoError(c.t, os.MkdirAll(filepath.Join(c.states.SwtpmDir, id.String()), 0o700))
	c.mu.Lock()
	c.domains[compute.InstanceName(id)] = true
	c.mu.Unlock()
	host := c.host.String()
	c.note(
		op.Thing(compute.ThingDiskFile, host, id.String()+"/disk"), op.Thing(compute.ThingDiskFile, host, id.String()+"/"+compute.ConsoleLogFile),
		op.Thing(compute.ThingTPMState, host, id.String()), op.Thing(compute.ThingDomain, host, compute.InstanceName(id)),
		c.secretThing(op, rootKey), c.secretThing(op, tpmKey),
	)
	return op
}

var root = compute.Disk{Role: compute.RootDisk}

// secret makes a secret in the key manager.
func (c *restored) secret(p compute.SecretPlan) compute.StoredSecret {
	c.t.Helper()
	id, err := c.keys.Create(c.t.Context(), key.CreateInput{Credential: schematest.Owner, ID: p.ID, Name: p.Name, Bytes: p.Bytes})
	require.NoError(c.t, err)
	return compute.StoredSecret{ID: id, Name: p.Name}
}

func (c *restored) dropSecret(s compute.StoredSecret) {
	c.t.Helper()
	require.NoError(c.t, c.keys.Delete(c.t.Context(), key.DeleteInput{Credential: schematest.Owner, Name: s.Name, ID: &s.ID}))
}

func (c *restored) secretThing(op compute.Operation, s compute.StoredSecret) compute.Thing {
	t := op.Thing(compute.ThingKeySecret, compute.PlaceKeyManager, s.Name)
	t.Reference = s.ID.String()
	return t
}

func (c *restored) file(id compute.ServerID, name string) string {
	c.t.Helper()
	path := filepath.Join(c.files.InstancesDir, id.String(), name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(c.t, os.WriteFile(path, []byte("data"), 0o600))
	return path
}

// note puts things that exist on the ledger.
func (c *restored) note(things ...compute.Thing) {
	c.t.Helper()
	require.NoError(c.t, ledger.Open(c.Ctx, c.Q, things))
	require.NoError(c.t, ledger.Present(c.Ctx, c.Q, things))
}

// run does it and waits for its end.
func (c *restored) run(op compute.Operation) {
	c.t.Helper()
	require.NoError(c.t, durable.Starter{Client: c.client}.Start(c.t.Context(), op))
	c.eventually(1, "SELECT count(*) FROM operations WHERE id = $1 AND state = 'succeeded'", op.ID)
}

func (c *restored) eventually(n int, query string, args ...any) {
	c.t.Helper()
	for until := time.Now().Add(2 * time.Minute); c.CountRows(query, args...) != n; time.Sleep(100 * time.Millisecond) {
		require.True(c.t, time.Now().Before(until), "%s %v:\n%s", query, args, c.Dump("operations", "operation_events", "ledger"))
	}
}

func (c *restored) dump() []byte {
	c.t.Helper()
	text, err := exec.CommandContext(c.t.Context(), "pg_dump", "--clean", "--if-exists", c.DB.Config().ConnString()).Output()
	require.NoError(c.t, err)
	return text
}

func (c *restored) restore(dump []byte) {
	c.t.Helper()
	psql := exec.CommandContext(c.t.Context(), "psql", "--quiet", "--single-transaction", "--set", "ON_ERROR_STOP=1", c.DB.Config().ConnString())
	psql.Stdin = bytes.NewReader(dump)
	said, err := psql.CombinedOutput()
	require.NoError(c.t, err, "%s", said)
	c.DB.Reset()
}

func (c *restored) with(remove ...compute.ServerID) repair {
	return repair{run: &run{Context: c.t.Context(), cli: &cli{}, log: slog.New(slog.DiscardHandler)}, pool: c.DB, temporal: c.client, keys: c.keys, remove: remove}
}

// repair is what the command does.
func (c *restored) repair(apply bool, remove ...compute.ServerID) repairResult {
	c.t.Helper()
	p := c.with(remove...)
	got, err := p.find()
	require.NoError(c.t, err)
	require.Empty(c.t, got.Silent)
	if apply {
		require.NoError(c.t, p.apply(&got))
	}
	var table bytes.Buffer
	require.NoError(c.t, output{Output: "table"}.printTo(&table, nil, repairTable(got)))
	c.t.Log("\n" + table.String())
	return got
}

// remedies counts what a repair is about to do, by server.
func remedies(r repairResult) map[compute.ServerID]map[compute.Remedy]int {
	out := map[compute.ServerID]map[compute.Remedy]int{}
	for _, d := range r.Damage {
		if out[d.Server] == nil {
			out[d.Server] = map[compute.Remedy]int{}
		}
		out[d.Server][d.Remedy]++
	}
	return out
}

func (c *restored) findings() []compute.Finding {
	c.t.Helper()
	got, err := runAudit(c.t.Context(), c.client, "", enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL)
	require.NoError(c.t, err)
	require.Empty(c.t, got.Silent)
	return got.Findings
}

// M8: yesterday's database is restored. Since then a server was deleted, one created, one's
// keys were rotated, one was unrescued; an operation ran, one began, and a rotation that was
// under way ended. A repair tells all of it, changes nothing before it is told to, mends it,
// and removes what the database does not know only of the server that is named. Then the
// audit finds nothing.
func TestM8AnOlderDatabaseIsRepaired(t *testing.T) {
	t.Parallel()
	c := newRestored(t)
	deleted, rotated, rotating, rescued, untouched := c.spawn(), c.spawn(), c.spawn(), c.spawn(), c.spawn()
	rescue := c.file(rescued.ServerID, "disk.rescue")
	c.note(rescued.Thing(compute.ThingDiskFile, c.host.String(), rescued.ServerID.String()+"/disk.rescue"))
	require.Empty(t, c.findings())
	c.Exec("DELETE FROM ledger WHERE name = $1", untouched.ServerID.String()+"/disk") // written down a moment after the backup

	// A rotation is under way: it has made its secret and is about to add the slots.
	rotation := c.Supersede(rotating.ServerID, compute.OpRotateKeys, nil)
	c.Exec("UPDATE operations SET state = 'running', started_at = now(), updated_at = now() - interval '1 minute' WHERE id = $1", rotation.ID)
	rotation.Credential = schematest.Owner
	made := c.secret(compute.DiskSecret(rotating.ServerID, rotation.ID, root))
	slots := rotation.Thing(compute.ThingKeySlot, c.host.String(), compute.AddedKeySlots(rotating.ServerID, "disk", rotation.ID))
	slots.Reference = "0"
	require.NoError(t, ledger.Open(c.Ctx, c.Q, []compute.Thing{c.secretThing(rotation, made), slots}))

	backup := c.dump()
	// Since then:
	c.run(c.Supersede(deleted.ServerID, compute.OpDelete, nil))
	later := compute.NewOperationID()
	newKey := c.secret(compute.DiskSecret(rotated.ServerID, later, root))
	old := func(op compute.Operation) compute.StoredSecret {
		p := compute.DiskSecret(op.ServerID, op.ID, root)
		return compute.StoredSecret{ID: p.ID, Name: p.Name}
	}
	c.dropSecret(old(rotated))
	c.dropSecret(old(rotating))
	require.NoError(t, os.Remove(rescue))
	created := c.spawn()
	begun := c.Supersede(created.ServerID, compute.OpStop, nil) // its host does not know how to stop a guest
	require.NoError(t, durable.Starter{Client: c.client}.Start(t.Context(), begun))
	c.eventually(1, "SELECT count(*) FROM operations WHERE id = $1 AND state = 'running'", begun.ID)
	c.stop()
	c.restore(backup)
	var lost repairResult
	require.NoError(t, c.with().findOperations(&lost))
	require.Equal(t, map[compute.ServerID]map[compute.Remedy]int{
		rotating.ServerID: {compute.SettleOperation: 1}, created.ServerID: {compute.TerminateExecution: 1},
	}, remedies(lost))
	for _, d := range lost.Damage {
		for range 2 {
			if d.Remedy == compute.SettleOperation { // as the janitor will
				require.NoError(t, c.with().mend(d, &lost))
			}
		}
	}
	require.Equal(t, 1, c.CountRows("SELECT count(*) FROM operations WHERE id = $1 AND state = 'failed'", rotation.ID))
	c.work()

	disks := func(op compute.Operation) int {
		found, err := filepath.Glob(filepath.Join(c.files.InstancesDir, op.ServerID.String(), "disk*"))
		require.NoError(t, err)
		return len(found)
	}
	before := c.Dump("servers", "server_disks", "ledger", "operations")
	got := c.repair(false)
	require.Equal(t, before, c.Dump("servers", "server_disks", "ledger", "operations"))
	require.Equal(t, map[compute.ServerID]map[compute.Remedy]int{
		deleted.ServerID:   {compute.DeleteServer: 1},
		rotated.ServerID:   {compute.NameKey: 1},
		rotating.ServerID:  {compute.NameKey: 1},
		rescued.ServerID:   {compute.ReleaseRow: 1},
		untouched.ServerID: {compute.RestoreRow: 1},
		created.ServerID:   {compute.TerminateExecution: 1, "": 1},
	}, remedies(got))
	require.ErrorContains(t, got.err(false), "6 to be repaired: run it with --apply; 1 for people to decide")

	got = c.repair(true)
	require.ErrorContains(t, got.err(true), "1 are left")
	for _, d := range got.Damage {
		require.Equal(t, d.What != compute.UnknownServer, d.Applied, "%+v", d)
	}
	c.eventually(1, "SELECT count(*) FROM servers WHERE id = $1 AND deleted_at IS NOT NULL", deleted.ServerID)
	c.eventually(1, "SELECT count(*) FROM operations WHERE server_id = $1 AND kind = 'delete' AND state = 'succeeded'", deleted.ServerID)
	require.Zero(t, c.CountRows("SELECT count(*) FROM ledger WHERE state = 'waiting'"))
	for op, want := range map[*compute.Operation]compute.SecretID{&rotated: newKey.ID, &rotating: made.ID} {
		require.Equal(t, 1, c.CountRows("SELECT count(*) FROM server_disks WHERE server_id = $1 AND encryption_secret_uuid = $2", op.ServerID, want))
	}
	require.Eventually(t, func() bool { // an execution that has ended is listed for a moment
		running, err := durable.RunningExecutions(t.Context(), c.client)
		return err == nil && len(running) == 0
	}, time.Minute, 100*time.Millisecond)

	// What the database does not know stays until it is named.
	again := c.repair(true)
	require.Equal(t, map[compute.ServerID]map[compute.Remedy]int{created.ServerID: {"": 1}}, remedies(again))
	require.Contains(t, again.Damage[0].Name, "1 domain, 2 disk_file, 1 tpm_state, 2 key_secret")
	for _, op := range []compute.Operation{rotated, rotating, rescued, untouched, created} {
		require.Equal(t, 1, disks(op))
	}
	_, err := c.with(untouched.ServerID).find()
	require.ErrorContains(t, err, "is on record: delete it as any other")

	require.NoError(t, c.repair(true, created.ServerID).err(true))
	c.eventually(0, "SELECT count(*) FROM ledger WHERE owner_id = $1 AND state <> 'released'", created.ServerID)
	require.Zero(t, disks(created))
	require.Empty(t, c.findings())
	require.NoError(t, c.repair(false).err(false))
	require.Len(t, slices.Collect(maps.Keys(c.domains)), 4)
}

// What is no id of a server removes nothing.
func TestRepairRefusesWhatIsNoServer(t *testing.T) {
	t.Parallel()
	_, err := serverIDs([]string{uuid.NewString(), "vm-1"})
	require.ErrorContains(t, err, `"vm-1" is no id of a server`)
}
