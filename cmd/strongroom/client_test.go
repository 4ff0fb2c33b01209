package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/worker/pki/pkitest"
)

// runner brings operations to their end in the database as a workflow does, at once or after its client has looked twice.
type runner struct {
	t    *testing.T
	pool *pgxpool.Pool

	mu    sync.Mutex
	fails map[compute.OperationKind]string // why those of a kind fail
	slow  bool                             // they run until somebody has looked twice
	looks int
	open  []compute.Operation
}

func (r *runner) exec(sql string, args ...any) error {
	_, err := r.pool.Exec(context.Background(), sql, args...)
	return err
}

func (r *runner) Start(_ context.Context, op compute.Operation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slow {
		r.open = append(r.open, op)
		return r.exec(`UPDATE operations SET state = 'running', started_at = now() WHERE id = $1`, op.ID)
	}
	return r.end(op)
}

func (r *runner) end(op compute.Operation) error {
	if why := r.fails[op.Kind]; why != "" {
		return r.settle(op, compute.OperationFailed, why)
	}
	ends := map[compute.OperationKind]string{
		compute.OpStop: `vm_state = 'stopped', power_state = 4`, compute.OpPause: `vm_state = 'paused', power_state = 3`,
		compute.OpDelete: `vm_state = 'deleted', deleted_at = now()`, compute.OpShareAttach: `vm_state = 'stopped'`, compute.OpShareDetach: `vm_state = 'stopped'`,
	}
	switch op.Kind {
	case compute.OpShareAttach:
		if err := r.exec(`UPDATE server_shares SET status = 'inactive' WHERE server_id = $1`, op.ServerID); err != nil {
			return err
		}
	case compute.OpShareDetach:
		if err := r.exec(`DELETE FROM server_shares WHERE server_id = $1 AND status = 'detaching'`, op.ServerID); err != nil {
			return err
		}
	}
	end := ends[op.Kind]
	if end == "" {
		end = `vm_state = 'active', power_state = 1, launched_at = now(), availability_zone = 'nova', host_id = (SELECT id FROM hosts)`
	}
	return errors.Join(r.exec(`UPDATE servers SET `+end+` WHERE id = $1`, op.ServerID), r.settle(op, compute.OperationSucceeded, ""))
}

func (r *runner) settle(op compute.Operation, state compute.OperationState, why string) error {
	return errors.Join(
		r.exec(`UPDATE servers SET task_state = '', current_operation = '' WHERE id = $1`, op.ServerID),
		r.exec(`UPDATE operations SET state = $2, message = nullif($3, ''), finished_at = now() WHERE id = $1`, op.ID, state, why))
}

func (r *runner) CancelExecution(_ context.Context, op compute.Operation) error {
	return r.settle(op, compute.OperationCancelled, "cancelled")
}

// Ended says that an operation has succeeded.
func (r *runner) Ended(context.Context, compute.Operation) (*compute.Error, error) { return nil, nil }

func (r *runner) Progress(_ context.Context, op compute.Operation) (compute.Progress, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looks++; r.looks > 1 {
		if err := r.end(op); err != nil {
			return compute.Progress{}, false, err
		}
	}
	return compute.Progress{Phase: "download", Done: int64(r.looks) << 20, Total: 4 << 20}, true, nil
}

func (*runner) Health(context.Context) error { return nil }

func (*runner) PortPlugged(context.Context, compute.ServerID) error { return nil }

func (*runner) ImageRecord(context.Context, compute.Operation) (*compute.Error, error) {
	return nil, nil
}

// endorse gives a server a vTPM with certificates of its keys.
func (r *runner) endorse(t *testing.T, id string) (certificates [][]byte) {
	t.Helper()
	certificates, issuers := pkitest.Endorsed(t, compute.ServerID{UUID: uuid.MustParse(id)})
	require.NoError(t, r.exec(`INSERT INTO tpm_endorsements (server_id, operation_id, certificates, issuers) VALUES ($1, 'req-made', $2, $3)`, id, certificates, issuers))
	require.NoError(t, r.exec(`UPDATE servers SET tpm = '{"version": "2.0", "model": "tpm-crb", "security": "user", "endorsed": "req-made"}' WHERE id = $1`, id))
	return certificates
}

// set says how operations go from here on.
func (r *runner) set(slow bool, fails map[compute.OperationKind]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow, r.fails, r.looks = slow, fails, 0
}

// newOffice is a desk at a cloud with a host, a flavor and an image.
func newOffice(t *testing.T) (desk, region) {
	t.Helper()
	here := newRegion(t)
	require.NoError(t, here.run.exec(`INSERT INTO hosts (id, name, agent_url, vcpus, memory_mb, disk_gb, last_seen) VALUES ($1, 'node-1', 'http://agent', 8, 8192, 100, now())`, uuid.New()))
	d := newDesk(t, map[string]region{"here": here})
	auth, endpoint, _, err := clouds.Parse(clouds.WithCloudName("here"), clouds.WithLocations(d.clouds))
	require.NoError(t, err)
	provider, err := config.NewProviderClient(t.Context(), auth)
	require.NoError(t, err)
	nova, err := openstack.NewComputeV2(provider, endpoint)
	require.NoError(t, err)
	disk := 1
	_, err = flavors.Create(t.Context(), nova, flavors.CreateOpts{Name: "small", RAM: 64, VCPUs: 1, Disk: &disk}).Extract()
	require.NoError(t, err)
	glance, err := openstack.NewImageV2(provider, endpoint)
	require.NoError(t, err)
	public := images.ImageVisibilityPublic
	image, err := images.Create(t.Context(), glance, images.CreateOpts{Name: "tiny", DiskFormat: "raw", ContainerFormat: "bare", Visibility: &public}).Extract()
	require.NoError(t, err)
	require.NoError(t, imagedata.Upload(t.Context(), glance, image.ID, strings.NewReader(strings.Repeat("x", 1<<20))).ExtractErr())
	return d, here
}

// said is what a run of the program printed, and its exit code.
type said struct {
	out, err string
	code     int
}

// say runs the program as the project's member.
func (d desk) say(args ...string) said { return d.sayAs("here-member", args...) }

func (d desk) sayAs(cloud string, args ...string) (s said) {
	d.t.Helper()
	var out, complaint bytes.Buffer
	cmd := d.program(cloud, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil {
		require.ErrorAs(d.t, err, &ended)
		s.code = ended.ExitCode()
	}
	s.out, s.err = out.String(), complaint.String()
	return s
}

// does runs a command that succeeds, and gives what it prints.
func (d desk) does(args ...string) string {
	d.t.Helper()
	s := d.say(args...)
	require.Zero(d.t, s.code, "%v: %s%s", args, s.out, s.err)
	return s.out
}

// Commands wait for operations: with progress where there is some, to their end, and with the cause of one that failed.
func TestCommandsWaitForOperations(t *testing.T) {
	t.Parallel()
	d, here := newOffice(t)
	here.run.set(true, nil)
	s := d.say("server", "create", "vault", "--flavor", "small", "--image", "tiny", "--wait")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "ACTIVE")
	require.Equal(t, "vault: create download 20% of 4.0 MiB\nvault: create download 50% of 4.0 MiB\nvault: create, succeeded\n", s.err, "plain lines where there is no terminal")
	require.NotContains(t, s.out, "download", "progress is beside the output")

	here.run.set(false, map[compute.OperationKind]string{compute.OpStart: "the host has no room"})
	d.does("server", "stop", "vault", "--wait")
	s = d.say("server", "start", "vault", "--wait")
	require.Equal(t, 1, s.code)
	require.Regexp(t, `(?m)^strongroom: start \(req-[0-9a-f-]+\) failed: the host has no room\n$`, s.err)
	require.Equal(t, "SHUTOFF\n", d.does("server", "show", "vault", "-o", "value", "-c", "status"))

	here.run.set(true, nil)
	here.run.looks = -1 << 20
	s = d.say("server", "start", "vault", "--wait", "--timeout", "1s")
	require.Equal(t, 3, s.code)
	require.Regexp(t, `strongroom: gave up waiting after 1s: the operation req-\S+ goes on: strongroom operation watch`, s.err)
	s = d.say("server", "delete", "vault")
	require.Zero(t, s.code, s.err)
}

// Operations are listed, shown, watched and cancelled.
func TestOperationCommands(t *testing.T) {
	t.Parallel()
	d, here := newOffice(t)
	d.does("server", "create", "vault", "--flavor", "small", "--image", "tiny")
	d.does("server", "stop", "vault")
	require.Equal(t, "stop succeeded\ncreate succeeded\n", d.does("operation", "list", "vault", "-o", "value", "-c", "kind", "-c", "state"))
	require.Empty(t, d.does("operation", "list", "vault", "--state", "failed", "-o", "value"))
	require.Contains(t, d.does("operation", "list", "vault", "--long"), "FINISHED")
	id := strings.TrimSpace(d.does("operation", "show", "vault", "-c", "id", "-o", "value"))
	require.Equal(t, "stop\n", d.does("operation", "show", "vault", id, "-c", "kind", "-o", "value"))
	require.NoError(t, here.run.exec(`INSERT INTO operation_events (operation_id, event, started_at) VALUES ($1, 'stop_guest', now())`, id))
	require.Contains(t, d.does("operation", "show", "vault"), "stop_guest under way")

	here.run.set(true, nil)
	here.run.looks = -1 << 20
	require.Equal(t, "[]\n", d.does("operation", "list", "-o", "json"), "nothing is under way")
	d.does("server", "start", "vault")
	require.Equal(t, "vault start running\n", d.does("operation", "list", "-o", "value", "-c", "server", "-c", "kind", "-c", "state"))
	s := d.say("operation", "cancel", "vault", "--wait", "-o", "json")
	require.Zero(t, s.code, s.err)
	var op struct{ State, Kind string }
	require.NoError(t, json.Unmarshal([]byte(s.out), &op))
	require.Equal(t, "cancelled", op.State)
	require.Equal(t, "start", op.Kind)
	s = d.say("operation", "cancel", "vault")
	require.Equal(t, said{"", "strongroom: Operation " + strings.TrimSpace(d.does("operation", "show", "vault", "-c", "id", "-o", "value")) + " has ended: it is cancelled. (HTTP 409)\n", 1}, s)
	s = d.say("operation", "watch", "vault")
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, "was cancelled")

	here.run.set(true, nil)
	d.does("server", "start", "vault")
	require.Contains(t, d.does("operation", "watch", "vault"), "succeeded")
	require.Equal(t, "strongroom: Operation req-none could not be found. (HTTP 404)\n", d.say("operation", "show", "vault", "req-none").err)
}

// A tenant is told the certificates of his server's vTPM, and the SHA-256 of each, which the guest's own can be compared with.
func TestTPMCertificatesCommand(t *testing.T) {
	t.Parallel()
	d, here := newOffice(t)
	d.does("server", "create", "vault", "--flavor", "small", "--image", "tiny")
	s := d.say("server", "tpm-certificates", "vault")
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, "has no vTPM with certificates. (HTTP 404)")
	certificates := here.run.endorse(t, strings.TrimSpace(d.does("server", "show", "vault", "-o", "value", "-c", "id")))
	var shown certified
	require.NoError(t, json.Unmarshal([]byte(d.does("server", "tpm-certificates", "vault", "-o", "json")), &shown))
	require.Len(t, shown.Certificates, 2)
	require.Contains(t, shown.Issuers, "BEGIN CERTIFICATE")
	rows := strings.Split(strings.TrimSpace(d.does("server", "tpm-certificates", "vault", "--no-headers")), "\n")
	require.Len(t, rows, 2)
	for i, row := range rows {
		path := filepath.Join(t.TempDir(), "ek.pem")
		require.NoError(t, os.WriteFile(path, []byte(shown.Certificates[i].Certificate), 0o600))
		said, err := exec.CommandContext(t.Context(), "openssl", "x509", "-in", path, "-noout", "-fingerprint", "-sha256").Output()
		require.NoError(t, err)
		_, sum, _ := strings.Cut(strings.TrimSpace(string(said)), "=")
		require.Contains(t, row, sum)
		block, _ := pem.Decode([]byte(shown.Certificates[i].Certificate))
		require.Equal(t, certificates[i], block.Bytes)
	}
}

// A server is given shares, and they are taken from it, while it is off; what is refused is told.
func TestShareCommands(t *testing.T) {
	t.Parallel()
	d, here := newOffice(t)
	require.NoError(t, here.run.exec(`UPDATE hosts SET traits = $1, release = '1', address = '192.0.2.1'`, []string{compute.TraitVirtioFS, compute.TraitMemoryFile}))
	d.does("server", "create", "vault", "--flavor", "small", "--image", "tiny", "--wait")
	var owner compute.Credential
	require.NoError(t, here.pool.QueryRow(t.Context(), `SELECT project_id FROM servers WHERE name = 'vault'`).Scan(&owner.ProjectID))
	share, err := here.shares.Create(t.Context(), owner, "papers", 1)
	require.NoError(t, err)
	s := d.say("server", "share", "attach", "vault", share.ID.String())
	require.Equal(t, 1, s.code, "it runs")
	require.Contains(t, s.err, "(HTTP 409)")
	d.does("server", "stop", "vault", "--wait")
	s = d.say("server", "share", "attach", "vault", uuid.NewString(), "--wait")
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, "(HTTP 404)")
	require.Equal(t, share.ID.String()+" inactive documents \n", d.does("server", "share", "attach", "vault", share.ID.String(), "--tag", "documents", "--wait", "-o", "value"))
	var listed []map[string]any
	require.NoError(t, json.Unmarshal([]byte(d.does("server", "share", "list", "vault", "-o", "json")), &listed))
	require.Len(t, listed, 1)
	require.Equal(t, []any{share.ID.String(), "inactive", "documents"}, []any{listed[0]["shareId"], listed[0]["status"], listed[0]["tag"]})
	here.run.set(false, map[compute.OperationKind]string{compute.OpShareDetach: "the storage does not answer"})
	s = d.say("server", "share", "detach", "vault", share.ID.String(), "--wait")
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, "failed: the storage does not answer")
	here.run.set(false, nil)
	require.Equal(t, "SHARE   STATUS   TAG   FAULT\n", d.does("server", "share", "detach", "vault", share.ID.String(), "--wait"))
	require.Equal(t, "[]\n", d.does("server", "share", "list", "vault", "-o", "json"))
}

// A create attaches shares when the server runs; a guest that cannot take them so is stopped for it, and started again. A share that is
// refused leaves the server as it runs, and is told.
func TestCreateCommandGivesShares(t *testing.T) {
	t.Parallel()
	d, here := newOffice(t)
	require.NoError(t, here.run.exec(`UPDATE hosts SET traits = $1, release = '1', address = '192.0.2.1'`, []string{compute.TraitVirtioFS, compute.TraitMemoryFile}))
	create := func(name string, args ...string) said {
		return d.say(append([]string{"server", "create", name, "--flavor", "small", "--image", "tiny", "-o", "value", "-c", "id"}, args...)...)
	}
	for _, wrong := range []string{"documents", "=documents", uuid.NewString() + "="} {
		s := create("none", "--share", wrong)
		require.Equal(t, 2, s.code, s.err)
		require.Contains(t, s.err, "--share is UUID or UUID=TAG")
	}
	twice := uuid.NewString()
	for _, second := range []string{strings.ToUpper(twice), uuid.NewString() + "=a", uuid.NewString() + "=" + twice} {
		s := create("none", "--share", twice, "--share", uuid.NewString()+"=a", "--share", second)
		require.Equal(t, 2, s.code, s.err)
		require.Contains(t, s.err, "is another one's share or tag")
	}
	require.Empty(t, d.does("server", "list", "-o", "value"))

	s := create("alone", "--share", uuid.NewString())
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, "was created, without ")
	require.Contains(t, s.err, "(HTTP 404)")
	var owner compute.Credential
	var state string
	require.NoError(t, here.pool.QueryRow(t.Context(), `SELECT project_id, vm_state FROM servers WHERE name = 'alone'`).Scan(&owner.ProjectID, &state))
	require.Equal(t, "active", state)

	papers, err := here.shares.Create(t.Context(), owner, "papers", 1)
	require.NoError(t, err)
	pictures, err := here.shares.Create(t.Context(), owner, "pictures", 1)
	require.NoError(t, err)
	s = create("vault", "--share", papers.ID.String()+"=documents", "--share", pictures.ID.String())
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.err, "it is stopped for them, and started again")
	require.Contains(t, d.does("server", "list", "-o", "value", "-c", "name", "-c", "status"), "vault ACTIVE\n")
	listed := d.does("server", "share", "list", "vault", "-o", "value")
	require.Contains(t, listed, papers.ID.String()+" ")
	require.Contains(t, listed, " documents ")
	require.Contains(t, listed, pictures.ID.String()+" ")

	none := uuid.NewString()
	s = create("half", "--share", papers.ID.String(), "--share", none)
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, "was created, without "+none+": ")
	require.Contains(t, s.err, "(HTTP 404)")
	here.run.set(false, map[compute.OperationKind]string{compute.OpStart: "the disk is gone"})
	s = create("off", "--share", papers.ID.String())
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, "may be left off")
	require.Contains(t, s.err, "the disk is gone")
	require.NotContains(t, s.err, "without")
	here.run.set(false, nil)
	require.Contains(t, d.does("server", "list", "-o", "value", "-c", "name", "-c", "status"), "half ACTIVE\n")
}

// A create takes what guests are set up with: user data, security groups, zone and config drive. What is refused makes no server.
func TestCreateCommandTakesWhatGuestsAreSetUpWith(t *testing.T) {
	t.Parallel()
	d, here := newOffice(t)
	script := filepath.Join(t.TempDir(), "cloud-init.yaml")
	require.NoError(t, os.WriteFile(script, []byte("#cloud-config\n"), 0o600))
	d.does("server", "create", "web", "--flavor", "small", "--image", "tiny", "--user-data", script, "--zone", "nova", "--config-drive")
	var data, zone string
	var drive bool
	require.NoError(t, here.pool.QueryRow(t.Context(), `SELECT user_data, config_drive, availability_zone FROM servers WHERE name = 'web'`).Scan(&data, &drive, &zone))
	require.Equal(t, []any{"I2Nsb3VkLWNvbmZpZwo=", true, "nova"}, []any{data, drive, zone})
	for says, args := range map[string][]string{
		"(HTTP 400)":   {"--zone", "no such zone"},
		"no such file": {"--user-data", script + ".none"},
		"Unable to find security_group with name or id 'no such group'": {"--security-group", "no such group"},
	} {
		s := d.say(append([]string{"server", "create", "none", "--flavor", "small", "--image", "tiny"}, args...)...)
		require.NotZero(t, s.code, says)
		require.Contains(t, s.err, says)
	}
	require.Equal(t, "web\n", d.does("server", "list", "-o", "value", "-c", "name"))
}

// Names are matched exactly; of many servers one that fails keeps no other back.
func TestManyServers(t *testing.T) {
	t.Parallel()
	d, _ := newOffice(t)
	for _, name := range []string{"web.1", "web-1", "web", "WEB"} {
		d.does("server", "create", name, "--flavor", "small", "--image", "tiny")
	}
	s := d.say("server", "stop", "web.1", "none", "web", "--wait")
	require.Equal(t, 1, s.code)
	require.Contains(t, s.err, "server none: there is no server \"none\"\n")
	require.True(t, strings.HasSuffix(s.err, "strongroom: 1 of 3 servers failed\n"), s.err)
	require.Equal(t, "WEB ACTIVE\nweb SHUTOFF\nweb-1 ACTIVE\nweb.1 SHUTOFF\n", sorted(d.does("server", "list", "-o", "value", "-c", "name", "-c", "status")))
	s = d.say("server", "stop", "w.*")
	require.Equal(t, said{"", "strongroom: there is no server \"w.*\"\n", 1}, s)
	d.does("server", "create", "web", "--flavor", "small", "--image", "tiny")
	require.Equal(t, "strongroom: there are 2 servers \"web\": name the one you mean by its id\n", d.say("server", "stop", "web").err)
	s = d.say("server", "delete", "web.1", "web-1", "WEB", "--wait")
	require.Zero(t, s.code, s.err)
	require.Equal(t, "web\nweb\n", d.does("server", "list", "-o", "value", "-c", "name"))
}

func sorted(lines string) string {
	all := strings.SplitAfter(lines, "\n")
	slices.Sort(all)
	return strings.Join(all, "")
}

// Lists and shows print tables, JSON, YAML and bare values, whole or by columns.
func TestOutputs(t *testing.T) {
	t.Parallel()
	d, _ := newOffice(t)
	d.does("server", "create", "vault", "--flavor", "small", "--image", "tiny")
	table := d.does("server", "list")
	require.Regexp(t, `^ID +NAME +STATUS +CREATED\n[0-9a-f-]{36} +vault +ACTIVE`, table)
	require.NotContains(t, d.does("server", "list", "--no-headers"), "STATUS")
	require.Contains(t, d.does("server", "list", "--long"), "FLAVOR")
	require.Equal(t, "STATUS   NAME\nACTIVE   vault\n", d.does("server", "list", "-c", "status", "-c", "Name"), "in the order that was asked for")
	require.JSONEq(t, `[{"name":"vault"}]`, d.does("server", "list", "-c", "name", "-o", "json"))
	require.Equal(t, "- name: vault\n  status: ACTIVE\n", d.does("server", "list", "-c", "name", "-c", "status", "-o", "yaml"))
	require.Equal(t, "vault ACTIVE\n", d.does("server", "list", "-c", "name", "-c", "status", "-o", "value"))
	require.JSONEq(t, `{"name":"vault","flavor":"small"}`, d.does("server", "show", "vault", "-c", "name", "-c", "flavor", "-o", "json"))
	require.Contains(t, d.does("server", "show", "vault", "-o", "yaml"), "name: vault\n")
	var shown struct {
		Disks []struct {
			Role string `json:"role"`
		} `json:"disks"`
	}
	require.NoError(t, json.Unmarshal([]byte(d.does("server", "show", "vault", "-o", "json")), &shown))
	require.Equal(t, "root", shown.Disks[0].Role)
	s := d.say("server", "list", "-c", "colour")
	require.Equal(t, said{"", "strongroom: there is no column \"colour\": there are id, name, status, created\n", 2}, s)
}

// What was not understood is told in one line, with the exit code 2.
func TestBadInputs(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	for says, args := range map[string][]string{
		"unexpected argument frob: see strongroom server --help":                                                       {"server", "frob"},
		`--output must be one of "table","json","yaml","value" but got "xml": see strongroom server list --help`:       {"server", "list", "-o", "xml"},
		"unknown flag --colour: see strongroom server list --help":                                                     {"server", "list", "--colour"},
		`expected "<server> ...": see strongroom server start --help`:                                                  {"server", "start"},
		`--key must be one of "same","new","existing","none" but got "old": see strongroom server image create --help`: {"server", "image", "create", "vault", "copy", "--key", "old"},
		"--secret goes with --key existing, and that with --secret":                                                    {"server", "image", "create", "vault", "copy", "--key", "existing"},
		`cloud "nowhere": cloud "nowhere" not found in clouds.yaml`:                                                    {"server", "list", "--os-cloud", "nowhere"},
	} {
		require.Equal(t, said{"", "strongroom: " + says + "\n", 2}, d.say(args...))
	}
}

// Images of servers say which key they are to have.
func TestImageCreateCommand(t *testing.T) {
	t.Parallel()
	d, here := newOffice(t)
	d.does("server", "create", "vault", "--flavor", "small", "--image", "tiny")
	for _, key := range []string{"same", "none"} {
		var made madeImage
		require.NoError(t, json.Unmarshal([]byte(d.does("server", "image", "create", "vault", "copy", "--key", key, "--property", "a=b", "--wait", "-o", "json")), &made))
		require.Equal(t, "succeeded", made.State)
		var arguments string
		require.NoError(t, here.pool.QueryRow(t.Context(), `SELECT arguments::text FROM operations WHERE id = $1`, made.Operation).Scan(&arguments))
		require.Contains(t, arguments, `"`+key+`"`)
		require.Contains(t, arguments, made.ID)
	}
}

// Administrators list and show hosts by the API.
func TestHostCommands(t *testing.T) {
	t.Parallel()
	d, _ := newOffice(t)
	d.does("server", "create", "vault", "--flavor", "small", "--image", "tiny")
	s := d.sayAs("here", "host", "list", "-o", "value", "-c", "host", "-c", "status", "-c", "state", "-c", "zone")
	require.Equal(t, said{out: "node-1 enabled up nova\n"}, s)
	require.Contains(t, d.sayAs("here", "host", "list", "--long").out, "of 8192")
	require.Contains(t, d.sayAs("here", "host", "show", "node-1").out, "of 8")
	require.Equal(t, said{"", "strongroom: there is no host \"node-9\"\n", 1}, d.sayAs("here", "host", "show", "node-9"))
	s = d.say("host", "list")
	require.Equal(t, said{"", "strongroom: Policy doesn't allow os_compute_api:os-services:list to be performed. (HTTP 403)\n", 1}, s)
}

// Credentials are read as the openstack client reads them.
func TestCredentials(t *testing.T) {
	t.Parallel()
	read := func(cloud string, env map[string]string) (gophercloud.AuthOptions, gophercloud.EndpointOpts) {
		t.Helper()
		_, from := credentials(cloud, func(name string) string { return env[name] })
		auth, endpoint, _, err := clouds.Parse(from...)
		require.NoError(t, err)
		return auth, endpoint
	}
	auth, _ := read("", map[string]string{
		"OS_AUTH_URL": "https://cloud/v3", "OS_USERNAME": "me", "OS_PASSWORD": "p", "OS_PROJECT_NAME": "demo", "OS_USER_DOMAIN_NAME": "people", "OS_PROJECT_DOMAIN_ID": "work",
	})
	require.Equal(t, "https://cloud/v3", auth.IdentityEndpoint)
	require.Equal(t, "people", auth.DomainName)
	require.Equal(t, &gophercloud.AuthScope{ProjectName: "demo", DomainID: "work"}, auth.Scope)

	auth, _ = read("", map[string]string{"OS_AUTH_URL": "https://cloud/v3", "OS_USERNAME": "me", "OS_PASSWORD": "p", "OS_TENANT_NAME": "demo"})
	require.Equal(t, "default", auth.DomainID)
	require.Equal(t, &gophercloud.AuthScope{ProjectName: "demo", DomainID: "default"}, auth.Scope)

	auth, _ = read("", map[string]string{
		"OS_AUTH_URL": "https://cloud/v3", "OS_APPLICATION_CREDENTIAL_ID": "id", "OS_APPLICATION_CREDENTIAL_SECRET": "s", "OS_PROJECT_NAME": "demo",
	})
	require.Equal(t, "id", auth.ApplicationCredentialID)
	require.Equal(t, "s", auth.ApplicationCredentialSecret)
	require.Nil(t, auth.Scope, "Keystone refuses another project than its own")

	auth, _ = read("", map[string]string{"OS_AUTH_URL": "https://cloud/v3", "OS_TOKEN": "t", "OS_PROJECT_ID": "1"})
	require.Equal(t, "t", auth.TokenID)

	name, _ := credentials("mine", func(string) string { return "https://cloud/v3" })
	require.Equal(t, `cloud "mine"`, name, "a cloud that is named goes before the rest")
	name, _ = credentials("", func(string) string { return "" })
	require.Equal(t, `cloud "strongroom-dev"`, name)
}

// The program logs in with the environment alone.
func TestEnvironmentLogsIn(t *testing.T) {
	t.Parallel()
	d, here := newOffice(t)
	cmd := d.program("", "server", "list", "-o", "json")
	cmd.Env = append(cmd.Env, "OS_CLIENT_CONFIG_FILE=/none", "OS_AUTH_URL="+here.auth, "OS_USERNAME=demo", "OS_PASSWORD="+here.passwords["demo"],
		"OS_PROJECT_NAME=demo", "OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.JSONEq(t, `[]`, string(out))
}

// Manual pages are well-formed, and name every command that help names; shells complete commands.
func TestManAndCompletion(t *testing.T) {
	t.Parallel()
	d, folder := newDesk(t, nil), t.TempDir()
	d.does("man", folder)
	pages, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Greater(t, len(pages), 20)
	for _, page := range pages {
		text, err := os.ReadFile(folder + "/" + page.Name())
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), ".TH "), page.Name())
	}
	text, err := os.ReadFile(folder + "/strongroom-server.1")
	require.NoError(t, err)
	require.Contains(t, string(text), "STRONGROOM SERVER IMAGE CREATE")
	require.Contains(t, d.does("completion", "bash", "-c"), "complete -o default")
	cmd := d.program("", "x")
	cmd.Env = append(cmd.Env, "COMP_LINE=strongroom operation ")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"list", "show", "watch", "cancel"}, strings.Fields(string(out)))
}
